#!/bin/sh
# build.sh key|build FOLDER RUSTC CARGO [TARGET] - the Rust library, compiled once for all builds of this source tree.
#
# TARGET is a kind of machine by Rust's name (aarch64-unknown-linux-gnu). Without one it is this machine's.
#
#   key     prints the folder below FOLDER that the library is in: a hash of what it is made of
#   build   lays these there, unless they are there: libkvferry_text.a, llguidance.h, crates.tsv (name, version, licence,
#           checksum of each crate) and licences/ (the texts)
#
# Of the library only jinja_* and llg_* can be seen by a program. The same sources and compiler: the same bytes.
# Others may build at once: one does, the rest wait.
set -eu
task=$1 folder=$2 rustc=$3 cargo=$4 machine=${5:-}
here=$(cd "$(dirname "$0")" && pwd)
[ -n "$machine" ] || machine=$("$rustc" -vV | sed -n 's/^host: //p')
tools= # the prefix of the compiler and the binary utilities, if the machine is another one
if [ "$("$rustc" -vV | sed -n 's/^host: //p')" != "$machine" ]; then
    tools=$(echo "$machine" | sed 's/-unknown//')-
    export "CARGO_TARGET_$(echo "$machine" | tr 'a-z-' 'A-Z_')_LINKER=${tools}gcc"
fi

# Calls through pointers land on an instruction that says so. This option has no stable name: the one crate may use it.
protection=
case "$machine" in x86_64*) protection=-Zcf-protection=full ;; esac

key=$({
    cd "$here"
    cat build.sh Cargo.toml Cargo.lock src/*.rs
    "$rustc" -vV
    echo "$tools"
} | sha256sum | cut -c1-16)
if [ "$task" = key ]; then
    echo "$key"
    exit 0
fi

out=$folder/$key
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
[ -e "$out/libkvferry_text.a" ] && exit 0
echo "text: compiling the Rust library, about two minutes, once"

cargo_home=${CARGO_HOME:-$HOME/.cargo}
target=$folder/target
work=$folder/work
rm -rf "$work" "$folder/crate" && mkdir -p "$work/licences" "$folder/crate"
# Compiled in a copy: cargo writes where it compiles. The lock here names no registry; all crates are of cargo's own.
cp -R "$here/Cargo.toml" "$here/src" "$folder/crate/"
registry="registry+https://github.com/rust-lang/crates."io-index
sed "s|^checksum = |source = \"$registry\"\n&|" "$here/Cargo.lock" >"$folder/crate/Cargo.lock"
run_cargo() {
    (cd "$folder/crate" && env -u RUSTC_WRAPPER RUSTC="$rustc" CARGO_TARGET_DIR="$target" RUSTC_BOOTSTRAP=kvferry_text \
        CARGO_ENCODED_RUSTFLAGS="$(printf '%s\037%s\037%s\037-Cforce-frame-pointers=yes' "--remap-path-prefix=$cargo_home=/cargo" \
            "--remap-path-prefix=$folder/crate=/text" "--remap-path-prefix=$target=/target")" "$cargo" "$@")
}
# shellcheck disable=SC2086 # none, or one word
run_cargo rustc --release --locked --quiet --target "$machine" -- $protection

# What a program can see, and what that needs, as one object.
library=$target/$machine/release/libkvferry_text.a
"${tools}nm" --defined-only "$library" 2>/dev/null | awk '$2 == "T" && $3 ~ /^(jinja|llg)_/ { print $3 }' | sort >"$work/visible"
"${tools}ld" -r -o "$work/text.o" $(sed 's/^/-u /' "$work/visible") "$library"
# Not the compiler's own code of it either: a plugin for another LLVM's would stumble over that.
"${tools}objcopy" --keep-global-symbols="$work/visible" --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd "$work/text.o"
(cd "$work" && "${tools}ar" rcsD libkvferry_text.a text.o && rm text.o visible)

# Each crate that is compiled in: cargo tree has those of this machine's kind alone, and no build scripts' own.
run_cargo tree --color never --locked --target "$machine" --prefix none --edges normal,no-proc-macro --format '{p}|{l}' |
    sed -n 's/ (\*)$//; s/^\([^ ]*\) v\([^ |]*\)[^|]*|\(.*\)$/\1\t\2\t\3/p' | sort -u | while IFS="$(printf '\t')" read -r name version licence; do
    if [ "$name" = kvferry-text ]; then continue; fi
    source=$(ls -d "$cargo_home"/registry/src/*/"$name-$version" | head -n 1)
    checksum=$(awk -v n="name = \"$name\"" -v v="version = \"$version\"" '$0 == n { a = 1 } a && $0 == v { b = 1 }
        b && /^checksum/ { print $3; exit } /^$/ { a = b = 0 }' "$here/Cargo.lock" | tr -d '"')
    printf '%s\t%s\t%s\t%s\n' "$name" "$version" "$licence" "$checksum" >>"$work/crates.tsv"
    mkdir -p "$work/licences/$name-$version"
    for text in "$source"/LICEN[CS]E* "$source"/COPYING* "$source"/NOTICE* "$source"/UNLICENSE*; do
        if [ -f "$text" ]; then cp "$text" "$work/licences/$name-$version/"; fi
    done
    if [ "$name" = llguidance ]; then cp "$source/llguidance.h" "$work/"; fi
done
# A bill of materials is made of this: a line that says anything but names and a licence's expression ends the build.
if grep -vP '^[\w-]+\t[\w.+-]+\t[\w.()/+ -]+\t[0-9a-f]{64}$' "$work/crates.tsv" >&2 || [ "$(cut -f 1,2 "$work/crates.tsv" | sort | uniq -d)" ]; then
    echo "build.sh: cargo tree gave these lines, or one crate twice" >&2
    exit 1
fi
# Rust's own library is in it, too: its licences lie with the compiler, wherever that comes from.
printf 'rust-std\t%s\tMIT OR Apache-2.0\t\n' "$("$rustc" -vV | sed -n 's/^release: //p')" >>"$work/crates.tsv"
mkdir "$work/licences/rust-std"
sysroot=$("$rustc" --print sysroot)
for text in "$sysroot"/share/doc/rust*/COPYRIGHT* "$sysroot"/share/doc/rust*/LICENSE* "$sysroot"/share/doc/rustc*/copyright; do
    if [ -f "$text" ]; then cp "$text" "$work/licences/rust-std/"; fi
done
find "$work" -type f -exec chmod 644 {} +
rm -rf "$out" # a build tool may have made it, empty
mv "$work" "$out"
