#!/bin/sh
# The Rust library: compiled again in another folder it has the same bytes, and a program sees nothing of it but its functions; every
# crate has a version, a licence and its text. rust_test.sh SOURCE WORK RUSTC CARGO
set -eu
source=$1 work=$2 rustc=$3 cargo=$4
rm -rf "$work"
mkdir -p "$work"
build=$source/text/rust/build.sh
key=$("$build" key "$work/a" "$rustc" "$cargo")
"$build" build "$work/a" "$rustc" "$cargo"
"$build" build "$work/longer/b" "$rustc" "$cargo"
a=$work/a/$key b=$work/longer/b/$key
cmp "$a/libkvferry_text.a" "$b/libkvferry_text.a"
diff -r "$a" "$b"

others=$(nm --defined-only --extern-only "$a/libkvferry_text.a" | awk 'NF == 3 && $3 !~ /^(jinja|llg)_/ { print $3 }')
if [ -n "$others" ]; then
    echo "a program sees: $others" >&2
    exit 1
fi
n=0
while IFS="$(printf '\t')" read -r name version licence _; do
    n=$((n + 1))
    folder=$a/licences/$name-$version
    [ "$name" != rust-std ] || folder=$a/licences/rust-std
    if [ -z "$version" ] || [ -z "$licence" ] || [ -z "$(ls "$folder")" ]; then
        echo "$name $version $licence: a field or the licence's text is missing" >&2
        exit 1
    fi
done <"$a/crates.tsv"
[ "$n" -gt 20 ]
echo "same bytes twice; $n crates with licences"
rm -rf "$work"
