# Makes of a published .proto the one that protoc-c reads: the same bytes on the wire.
# A string that `may hold U+0000`, as its comment says, becomes bytes; strings of C end there.
/may hold U+0000$/s/string /bytes /
# An `optional` field becomes the only member of the oneof FIELD_presence; protoc-c refuses the word.
s/^\( *\)optional \([A-Za-z0-9_.]* \)\([a-z0-9_]*\)\( = .*\)$/\1oneof \3_presence {\n\1  \2\3\4\n\1}/
