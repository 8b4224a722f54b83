/* Rows of attention, KV caches, tiers, snapshots and events: each bad value, pair of rows, file and folder, and each row that a model
 * cannot have, is refused before a start, with the row and the value in the sentence. */
#include "ctx_worker/ctx_worker.h"
#include "gen_worker/gen_worker.h"
#include "router/router.h"
#include "tests/cli/support/bad_files.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

TestSuite(bad_rows, .init = bad_files_make, .fini = bad_files_remove);

#define MODELS   KVFERRY_SOURCE_DIR "/tests/golden/models/"
#define DEMO     KVFERRY_SOURCE_DIR "/model/demo"
#define WINDOWED MODELS "gemma3_t4"
#define LATENT   MODELS "deepseek_v2_t4"
#define STATES   MODELS "qwen3_5_t5"
#define LLAMA    MODELS "llama_t4"
#define UNEQUAL  MODELS "gemma4_t5"
#define LEARNED  MODELS "gpt2_t4"
#define SLOPED   MODELS "bloom_t4"
#define ENCODER  KVFERRY_SOURCE_DIR "/tests/golden/encoders/t5_v1_0"

#define INVALID STATUS_INVALID_ARGUMENT

#define TEXT_MAX      8192
#define ARGUMENTS_MAX 12

struct bad_row {
    const struct role *role;
    const char *model;
    const char
        *rows; /* flags; @ here and in the sentence: the folder of bad_files, ~: 4,096 letters */
    enum status status;
    const char *sentence; /* the whole one */
};

#define GEN    &gen_worker_role
#define CTX    &ctx_worker_role
#define ROUTER &router_role

static const struct bad_row CASES[] = {
    /* windows */
    {GEN, DEMO, "--attention-window=x", INVALID,
     "attention_window is \"x\", expected numbers of tokens up to 1073741824 with commas between "
     "them"},
    {GEN, DEMO, "--attention-window=-1", INVALID,
     "attention_window is \"-1\", expected numbers of tokens up to 1073741824 with commas between "
     "them"},
    {GEN, DEMO, "--attention-window=NaN", INVALID,
     "attention_window is \"NaN\", expected numbers of tokens up to 1073741824 with commas between "
     "them"},
    {GEN, DEMO, "--attention-window=1,,2", INVALID,
     "attention_window is \"1,,2\", expected numbers of tokens up to 1073741824 with commas "
     "between them"},
    {GEN, DEMO, "--attention-window=0x10", INVALID,
     "attention_window is \"0x10\", expected numbers of tokens up to 1073741824 with commas "
     "between them"},
    {GEN, DEMO, "--attention-window=99999999999999999999", INVALID,
     "attention_window is \"99999999999999999999\", expected numbers of tokens up to 1073741824 "
     "with commas between them"},
    {GEN, DEMO,
     "--attention-window=16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,16,"
     "16,16,16,16,16,16,16,16,16,16,16,16",
     INVALID, "attention_window has more numbers than the model's 5 layers"},
    {GEN, DEMO, "--attention-window=128", INVALID,
     "attention_window gives layer 0 a window of 128 tokens; the model was made with 0 (0: all), "
     "and computes something else with another: force_window allows it"},
    {GEN, DEMO, "--attention-window=1,", INVALID,
     "attention_window is \"1,\", expected numbers of tokens up to 1073741824 with commas between "
     "them"},
    {GEN, DEMO, "--attention-window", INVALID, "--attention-window needs a value"},
    {GEN, WINDOWED, "--attention-window=0", INVALID,
     "attention_window gives layer 0 a window of 0 tokens; the model was made with 9 (0: all), and "
     "computes something else with another: force_window allows it"},
    {GEN, LATENT, "--attention-window=16 --force-window", STATUS_UNSUPPORTED,
     "attention_window gives layer 0 a window of 16 tokens, but its attention is over latents, "
     "which has none"},
    {GEN, UNEQUAL, "--attention-window=4,8 --force-window", STATUS_UNSUPPORTED,
     "attention_window gives layer 3 a window of 8 tokens, but it reads K and V of layer 2, which "
     "has 4"},
    {GEN, UNEQUAL, "--attention-window=8,4,4,8,4 --force-window", STATUS_UNSUPPORTED,
     "attention_window gives layer 3 a window of 8 tokens, but it reads K and V of layer 2, which "
     "has 4"},
    {GEN, ENCODER, "--attention-window=16 --force-window", STATUS_UNSUPPORTED,
     "attention_window gives layer 0 a window of 16 tokens, but the model has an encoder, whose "
     "text each token of a reply sees"},
    /* forced windows */
    {GEN, DEMO, "--force-window=perhaps", INVALID,
     "--force-window: \"perhaps\" is not true or false"},
    {GEN, DEMO, "--force-window yes", INVALID,
     "--force-window takes no separate value: write --force-window=yes, not --force-window yes"},
    /* sinks */
    {GEN, DEMO, "--sink-tokens=-1", INVALID, "--sink-tokens: \"-1\" is not a whole number"},
    {GEN, DEMO, "--sink-tokens=nan", INVALID, "--sink-tokens: \"nan\" is not a whole number"},
    {GEN, DEMO, "--sink-tokens=1048577", INVALID,
     "--sink-tokens: 1048577 is not between 0 and 1048576"},
    {GEN, DEMO, "--sink-tokens=4.5", INVALID, "--sink-tokens: \"4.5\" is not a whole number"},
    {GEN, DEMO, "--sink-tokens=", INVALID, "--sink-tokens: \"\" is not a whole number"},
    {GEN, DEMO, "--sink-tokens=4k", INVALID, "--sink-tokens: \"4k\" is not a whole number"},
    {GEN, DEMO, "--sink-tokens=4294967296", INVALID,
     "--sink-tokens: 4294967296 is not between 0 and 1048576"},
    {GEN, DEMO, "--sink-tokens=4", INVALID,
     "sink_tokens is 4, and attention_window is \"\": expected one number, of the tokens that a "
     "token of the reply sees"},
    {GEN, DEMO, "--sink-tokens=4 --attention-window=64,0", INVALID,
     "sink_tokens is 4, and attention_window is \"64,0\": expected one number, of the tokens that "
     "a token of the reply sees"},
    {GEN, DEMO, "--sink-tokens=4 --attention-window=4", INVALID,
     "sink_tokens is 4 of an attention_window of 4: expected fewer"},
    {GEN, DEMO, "--sink-tokens=4 --attention-window=0", INVALID,
     "sink_tokens is 4 of an attention_window of 0: expected fewer"},
    {GEN, DEMO, "--sink-tokens=4 --attention-window=18446744073709551616", INVALID,
     "sink_tokens is 4, and attention_window is \"18446744073709551616\": expected one number, of "
     "the tokens that a token of the reply sees"},
    {GEN, DEMO, "--sink-tokens=4 --attention-window=-64", INVALID,
     "sink_tokens is 4, and attention_window is \"-64\": expected one number, of the tokens that a "
     "token of the reply sees"},
    {GEN, DEMO, "--sink-tokens=4 --attention-window=64 --kv-manager=contiguous", STATUS_UNSUPPORTED,
     "sink_tokens is 4, and kv_manager contiguous keeps all tokens: expected paged"},
    {CTX, DEMO, "--sink-tokens=4 --attention-window=64 --kv-manager=contiguous", STATUS_UNSUPPORTED,
     "sink_tokens is 4, and kv_manager contiguous keeps all tokens: expected paged"},
    {GEN, DEMO, "--sink-tokens=4 --attention-window=64 --capacity-policy=max-utilization", INVALID,
     "sink_tokens is 4, and capacity_policy is max-utilization, which pauses replies: expected "
     "no-evict or static-batch"},
    {GEN, DEMO, "--attention-math=fp8 --capacity-policy=max-utilization", INVALID,
     "capacity_policy is max-utilization: generated tokens cannot be computed again in chunks with "
     "any attention_math but compute"},
    {GEN, DEMO, "--attention-path=unfused --capacity-policy=max-utilization", INVALID,
     "capacity_policy is max-utilization: generated tokens cannot be computed again in chunks with "
     "attention_path unfused or short"},
    {GEN, WINDOWED, "--sink-tokens=4 --attention-window=64", INVALID,
     "KV layout: sink_tokens are 4 with 4 groups of layers and 0 blocks of recurrent state: "
     "expected one and none"},
    {GEN, LATENT, "--sink-tokens=4 --attention-window=64", STATUS_UNSUPPORTED,
     "sink_tokens is 4, but this model caches latents, whose rotary part is rotated already"},
    {GEN, STATES, "--sink-tokens=4 --attention-window=64", INVALID,
     "KV layout: sink_tokens are 4 with 1 groups of layers and 8 blocks of recurrent state: "
     "expected one and none"},
    {GEN, UNEQUAL, "--sink-tokens=4 --attention-window=64", INVALID,
     "KV layout: sink_tokens are 4 with 2 groups of layers and 0 blocks of recurrent state: "
     "expected one and none"},
    {GEN, LEARNED, "--sink-tokens=4 --attention-window=64", STATUS_UNSUPPORTED,
     "sink_tokens is 4, which needs rotary positions: this model has a table of them"},
    {GEN, SLOPED, "--sink-tokens=4 --attention-window=64", STATUS_UNSUPPORTED,
     "sink_tokens is 4, which needs rotary positions: this model has ALiBi"},
    {GEN, DEMO, "--sink-tokens=4 --attention-window=64 --attention-math=int8 --kv-block-tokens=64",
     STATUS_UNSUPPORTED,
     "sink_tokens is 4, and attention_math is int8: expected compute, bf16, fp16 or fp8"},
    /* the type of the cache */
    {GEN, DEMO, "--kv-dtype=fp8", INVALID,
     "--kv-dtype: \"fp8\" is not one of auto|f32|bf16|f16|int8|e4m3"},
    {GEN, DEMO, "--kv-dtype=INT8", INVALID,
     "--kv-dtype: \"INT8\" is not one of auto|f32|bf16|f16|int8|e4m3"},
    {GEN, DEMO, "--kv-dtype=", INVALID,
     "--kv-dtype: \"\" is not one of auto|f32|bf16|f16|int8|e4m3"},
    {GEN, DEMO, "--kv-dtype=bf16,f16", INVALID,
     "--kv-dtype: \"bf16,f16\" is not one of auto|f32|bf16|f16|int8|e4m3"},
    {GEN, DEMO, "--kv-dtype=int8", INVALID,
     "kv_dtype is int8, but " DEMO
     " has no scales of K and V: make them with `kvferry calibrate MODEL --text FILE`"},
    {GEN, ENCODER, "--kv-dtype=int8", INVALID,
     "kv_dtype is int8, but " ENCODER
     " has no scales of K and V: make them with `kvferry calibrate MODEL --text FILE`"},
    /* scales */
    {GEN, DEMO, "--kv-scales=@/good", INVALID,
     "kv_scales is @/good with kv_dtype bf16: expected int8 or e4m3"},
    {GEN, DEMO, "--kv-dtype=f16 --kv-scales=@/good", INVALID,
     "kv_scales is @/good with kv_dtype f16: expected int8 or e4m3"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/nowhere", STATUS_NOT_FOUND,
     "kv_scales: @/nowhere: No such file or directory"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/folder", STATUS_CORRUPT,
     "kv_scales: @/folder is not a regular file"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/empty", STATUS_CORRUPT,
     "kv_scales: @/empty: 0 bytes cannot hold the header's length"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/cut", STATUS_CORRUPT,
     "kv_scales: @/cut: tensor v_largest: data_offsets end at 16, the data has 15 bytes "
     "(truncated?)"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/long", STATUS_CORRUPT,
     "kv_scales: @/long: 1 bytes are left over after the last tensor"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/layers", INVALID,
     "kv_scales: @/layers: k_largest has 3 layers, the model has 2"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/nan", STATUS_CORRUPT,
     "kv_scales: @/nan: v_largest of layer 1 is nan, expected a number from 7.52e-37 to 1.33e+36"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/zero", STATUS_CORRUPT,
     "kv_scales: @/zero: v_largest of layer 1 is 0, expected a number from 7.52e-37 to 1.33e+36"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/minus", STATUS_CORRUPT,
     "kv_scales: @/minus: v_largest of layer 1 is -3, expected a number from 7.52e-37 to 1.33e+36"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/infinite", STATUS_CORRUPT,
     "kv_scales: @/infinite: v_largest of layer 1 is inf, expected a number from 7.52e-37 to "
     "1.33e+36"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/huge", STATUS_CORRUPT,
     "kv_scales: @/huge: v_largest of layer 1 is 1e+38, expected a number from 7.52e-37 to "
     "1.33e+36"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/tiny", STATUS_CORRUPT,
     "kv_scales: @/tiny: v_largest of layer 1 is 9.99995e-41, expected a number from 7.52e-37 to "
     "1.33e+36"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/twice", STATUS_CORRUPT,
     "kv_scales: @/twice is not JSON: line 1, column 73: duplicate object key near "
     "'\"k_largest\"'"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/halves", STATUS_CORRUPT,
     "kv_scales: @/halves: k_largest is F16, expected F32 with an element for each layer"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/square", STATUS_CORRUPT,
     "kv_scales: @/square: k_largest has 2 dimensions, expected one, an element for each layer"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/no_v", STATUS_CORRUPT,
     "kv_scales: @/no_v: v_largest is missing, expected F32 with an element for each layer"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/no_k", STATUS_CORRUPT,
     "kv_scales: @/no_k: k_largest is missing, expected F32 with an element for each layer"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/text", STATUS_CORRUPT,
     "kv_scales: @/text: header length is 8315166027967913835, at most 16777216"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/far", STATUS_CORRUPT,
     "kv_scales: @/far: 6 bytes cannot hold the header's length"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/fifo", STATUS_CORRUPT,
     "kv_scales: @/fifo is not a regular file"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/link", STATUS_NOT_FOUND,
     "kv_scales: @/link: No such file or directory"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/large", STATUS_CORRUPT,
     "kv_scales: @/large has 1048577 bytes, more than the limit of 1048576"},
    {CTX, LLAMA, "--kv-dtype=int8 --kv-scales=@/file/x", STATUS_NOT_FOUND,
     "kv_scales: @/file/x: Not a directory"},
    /* the manager */
    {GEN, DEMO, "--kv-manager=page", INVALID,
     "--kv-manager: \"page\" is not one of paged|contiguous"},
    {GEN, DEMO, "--kv-manager=PAGED", INVALID,
     "--kv-manager: \"PAGED\" is not one of paged|contiguous"},
    {GEN, DEMO, "--kv-manager=", INVALID, "--kv-manager: \"\" is not one of paged|contiguous"},
    /* tiers */
    {GEN, DEMO, "--kv-disk=@/folder", INVALID,
     "kv_disk is @/folder, and kv_disk_size is 0: it needs a size"},
    {GEN, DEMO, "--kv-disk-size=1M", INVALID,
     "kv_disk_size is 1048576 bytes, and kv_disk names no folder"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=-1", INVALID,
     "--kv-disk-size: \"-1\" is not a size such as 64M or 1.5Gi (powers of 1024) or 64MB (of "
     "1000)"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=nan", INVALID,
     "--kv-disk-size: \"nan\" is not a size such as 64M or 1.5Gi (powers of 1024) or 64MB (of "
     "1000)"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=1.5", INVALID,
     "--kv-disk-size: 1.5 is not a whole number of bytes"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=18446744073709551616", INVALID,
     "--kv-disk-size: 18446744073709551616 is not between 0 and 18446744073709551615"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=16777216T", INVALID,
     "--kv-disk-size: 16777216T is not between 0 and 18446744073709551615"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=1KB", INVALID,
     "--kv-disk-size: \"1KB\" is not a size such as 64M or 1.5Gi (powers of 1024) or 64MB (of "
     "1000)"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=1M --prefix-cache=no", INVALID,
     "kv_disk keeps blocks of a prefix cache, and prefix_cache is no"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=1M --kv-manager=contiguous", INVALID,
     "kv_disk keeps blocks of a prefix cache, and kv_manager contiguous has none"},
    {GEN, DEMO, "--kv-host-memory=64M --prefix-cache=no", INVALID,
     "kv_host_memory keeps blocks of a prefix cache, and prefix_cache is no"},
    {GEN, DEMO, "--kv-host-memory=64M --kv-manager=contiguous", INVALID,
     "kv_host_memory keeps blocks of a prefix cache, and kv_manager contiguous has none"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=4095", INVALID,
     "kv_disk_size is 4095 bytes, and the file of a KV block takes 24576"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=100K --kv-sharers=64", INVALID,
     "kv_disk_size is 1600 bytes for each of 64 workers, and the file of a KV block takes 24576"},
    {GEN, DEMO, "--kv-disk=@/no/such --kv-disk-size=1G", STATUS_NOT_FOUND,
     "kv_disk: cannot make the folder @/no/such: No such file or directory"},
    {GEN, DEMO, "--kv-disk=@/file --kv-disk-size=1G", STATUS_IO_FAILED,
     "kv_disk: cannot use the folder @/file: Not a directory"},
    {GEN, DEMO, "--kv-disk=@/file/x --kv-disk-size=1G", STATUS_IO_FAILED,
     "kv_disk: cannot use the folder @/file/x: Not a directory"},
    {GEN, DEMO, "--kv-disk=@/link --kv-disk-size=1G", STATUS_IO_FAILED,
     "kv_disk: cannot use the folder @/link: No such file or directory"},
    {GEN, DEMO, "--kv-disk=@/fifo --kv-disk-size=1G", STATUS_IO_FAILED,
     "kv_disk: cannot use the folder @/fifo: Not a directory"},
    {GEN, DEMO, "--kv-disk=@/~ --kv-disk-size=1G", INVALID,
     "kv_disk: a path of 4118 bytes, at most 4095"},
    {GEN, DEMO, "--kv-disk=@/fresh --kv-disk-size=1G --kv-disk-part=.", INVALID,
     "kv_disk_part is .: it is one name"},
    {GEN, DEMO, "--kv-disk=@/file --kv-disk-size=1G --kv-disk-part=ctx-worker-0", STATUS_IO_FAILED,
     "kv_disk: cannot use the folder @/file/ctx-worker-0: Not a directory"},
    {GEN, DEMO, "--kv-disk=@/no/such --kv-disk-size=1G --kv-disk-part=ctx-worker-0",
     STATUS_NOT_FOUND, "kv_disk: cannot make the folder @/no/such: No such file or directory"},
    {GEN, DEMO, "--kv-disk=@/taken --kv-disk-size=1G", STATUS_IO_FAILED,
     "kv_disk: cannot use the folder @/taken/kv-blocks: Not a directory"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=1G --kv-disk-part=a/b", INVALID,
     "kv_disk_part is a/b: it is one name"},
    {GEN, DEMO, "--kv-disk=@/folder --kv-disk-size=1G --kv-disk-part=..", INVALID,
     "kv_disk_part is ..: it is one name"},
    {GEN, DEMO, "--kv-host-memory=1", INVALID,
     "kv_host_memory is 1 bytes, and a KV block takes 20480"},
    {GEN, DEMO, "--kv-host-memory=abc", INVALID,
     "--kv-host-memory: \"abc\" is not a size such as 64M or 1.5Gi (powers of 1024) or 64MB (of "
     "1000)"},
    {GEN, DEMO, "--kv-host-memory=-64M", INVALID,
     "--kv-host-memory: \"-64M\" is not a size such as 64M or 1.5Gi (powers of 1024) or 64MB (of "
     "1000)"},
    {GEN, DEMO, "--kv-host-memory=16777216T", INVALID,
     "--kv-host-memory: 16777216T is not between 0 and 18446744073709551615"},
    {GEN, DEMO, "--kv-host-memory=1M --kv-sharers=64", INVALID,
     "kv_host_memory is 16384 bytes for each of 64 workers, and a KV block takes 20480"},
    /* what is for the host */
    {GEN, DEMO, "--kv-scrub=2", INVALID, "--kv-scrub: \"2\" is not true or false"},
    {GEN, DEMO, "--kv-scrub no", INVALID,
     "--kv-scrub takes no separate value: write --kv-scrub=no, not --kv-scrub no"},
    {GEN, DEMO, "--kv-convert=maybe", INVALID, "--kv-convert: \"maybe\" is not true or false"},
    {CTX, DEMO, "--kv-convert", INVALID, "unknown flag --kv-convert"},
    {GEN, DEMO, "--kv-convert --device=cuda:0", STATUS_UNSUPPORTED,
     "kv_convert is yes, but device is cuda:0: it is for KV blocks in the memory of the host"},
    {CTX, DEMO, "--kv-scrub --device=cuda:7", STATUS_UNSUPPORTED,
     "kv_scrub is yes, but device is cuda:7: it is for KV blocks in the memory of the host"},
    {GEN, DEMO, "--kv-scrub --device=cuda:0", STATUS_UNSUPPORTED,
     "kv_scrub is yes, but device is cuda:0: it is for KV blocks in the memory of the host"},
    /* snapshots */
    {GEN, STATES, "--snapshot-tokens=0", INVALID,
     "--snapshot-tokens: 0 is not between 1 and 1048576"},
    {GEN, STATES, "--snapshot-tokens=1048577", INVALID,
     "--snapshot-tokens: 1048577 is not between 1 and 1048576"},
    {GEN, STATES, "--snapshot-tokens=1.5", INVALID,
     "--snapshot-tokens: \"1.5\" is not a whole number"},
    {GEN, STATES, "--snapshot-tokens=-5", INVALID,
     "--snapshot-tokens: \"-5\" is not a whole number"},
    {GEN, STATES, "--snapshot-tokens=", INVALID, "--snapshot-tokens: \"\" is not a whole number"},
    {GEN, STATES, "--snapshot-tokens=1K", INVALID,
     "--snapshot-tokens: \"1K\" is not a whole number"},
    /* restores */
    {GEN, DEMO, "--kv-restore-ms=2h", INVALID, "--kv-restore-ms: 2h is not between 0ms and 1h"},
    {GEN, DEMO, "--kv-restore-ms=-1", INVALID,
     "--kv-restore-ms: \"-1\" is not a duration such as 500ms or 10s"},
    {GEN, DEMO, "--kv-restore-ms=1.5ms", INVALID,
     "--kv-restore-ms: 1.5ms is not a whole number of milliseconds"},
    {GEN, DEMO, "--kv-restore-ms=soon", INVALID,
     "--kv-restore-ms: \"soon\" is not a duration such as 500ms or 10s"},
    /* ways to compute attention */
    {GEN, DEMO, "--attention-path=fast", INVALID,
     "--attention-path: \"fast\" is not one of auto|unfused|short|flash"},
    {GEN, DEMO, "--attention-path=short", INVALID,
     "attention_path is short, which takes contexts of up to 1024 tokens, not of 2048: lower "
     "max_context_tokens, or take unfused"},
    {GEN, LATENT, "--attention-path=unfused", STATUS_UNSUPPORTED,
     "attention_path is unfused, but attention is over latents, which is computed in one way: "
     "expected auto"},
    {GEN, DEMO, "--multi-block=yes", INVALID, "--multi-block: \"yes\" is not one of auto|on|off"},
    {GEN, LATENT, "--multi-block=on", STATUS_UNSUPPORTED,
     "multi_block is on, but attention is over latents, which is computed in one way: expected "
     "auto"},
    {GEN, DEMO, "--grouped-query=maybe", INVALID,
     "--grouped-query: \"maybe\" is not one of auto|on|off"},
    {GEN, LATENT, "--grouped-query=off", STATUS_UNSUPPORTED,
     "grouped_query is off, but attention is over latents, which is computed in one way: expected "
     "auto"},
    {GEN, DEMO, "--attention-math=int4", INVALID,
     "--attention-math: \"int4\" is not one of compute|bf16|fp16|fp8|int8|int8-pv-fp8"},
    {GEN, DEMO, "--attention-math=int8", INVALID,
     "attention_math is int8, which rounds K of 64 tokens together, with kv_block_tokens 16: "
     "expected 64 or 128"},
    {GEN, DEMO, "--attention-math=int8 --kv-block-tokens=64 --attention-path=unfused", INVALID,
     "attention_math is int8, and attention_path is unfused, which stores scores: expected auto or "
     "flash"},
    {CTX, WINDOWED, "--attention-math=int8 --kv-block-tokens=64", STATUS_UNSUPPORTED,
     "attention_math is int8, but the window of a layer is 9 of up to 128 tokens: its bits would "
     "depend on chunks; expected compute, bf16, fp16 or fp8"},
    {CTX, LATENT, "--attention-math=bf16", STATUS_UNSUPPORTED,
     "attention_math is bf16, but attention is over latents: expected compute"},
    {GEN, DEMO, "--attention-math=", INVALID,
     "--attention-math: \"\" is not one of compute|bf16|fp16|fp8|int8|int8-pv-fp8"},
    /* events */
    {GEN, DEMO, "--kv-events-max=16777217", INVALID,
     "--kv-events-max: 16777217 is not between 0 and 16777216"},
    {GEN, DEMO, "--kv-events-max=-1", INVALID, "--kv-events-max: \"-1\" is not a whole number"},
    {GEN, DEMO, "--kv-events-max=4294967296", INVALID,
     "--kv-events-max: 4294967296 is not between 0 and 16777216"},
    {GEN, DEMO, "--kv-events-max=many", INVALID, "--kv-events-max: \"many\" is not a whole number"},
    {GEN, DEMO, "--kv-events-max=", INVALID, "--kv-events-max: \"\" is not a whole number"},
    {GEN, DEMO, "--kv-event-streams-max=0", INVALID,
     "--kv-event-streams-max: 0 is not between 1 and 256"},
    {GEN, DEMO, "--kv-event-streams-max=257", INVALID,
     "--kv-event-streams-max: 257 is not between 1 and 256"},
    {GEN, DEMO, "--kv-event-streams-max=-1", INVALID,
     "--kv-event-streams-max: \"-1\" is not a whole number"},
    {ROUTER, DEMO, "--kv-event-blocks-max=16777217", INVALID,
     "--kv-event-blocks-max: 16777217 is not between 0 and 16777216"},
    {ROUTER, DEMO, "--kv-event-blocks-max=-1", INVALID,
     "--kv-event-blocks-max: \"-1\" is not a whole number"},
    {ROUTER, DEMO, "--kv-event-blocks-max=1.0", INVALID,
     "--kv-event-blocks-max: \"1.0\" is not a whole number"},
    {ROUTER, DEMO, "--kv-events-max=1", INVALID,
     "unknown flag --kv-events-max; did you mean --kv-event-blocks-max?"},
    /* files of rows */
    {GEN, DEMO, "--config=@/twice.yaml", INVALID,
     "@/twice.yaml:2: kv-dtype: already given in line 1"},
    {GEN, DEMO, "--config=@/list.yaml", STATUS_CORRUPT,
     "@/list.yaml:1: kv_disk: expected a plain value, nothing nested"},
    {GEN, DEMO, "--config=@/nested.yaml", STATUS_CORRUPT,
     "@/nested.yaml:2: attention_window: expected a plain value, nothing nested"},
    {GEN, DEMO, "--config=@/slip.yaml", INVALID,
     "@/slip.yaml:1: kv_disc: unknown key; did you mean kv_disk?"},
    {GEN, DEMO, "--config=@/word.yaml", INVALID,
     "@/word.yaml:1: kv_scrub: \"maybe\" is not true or false"},
    {GEN, DEMO, "--config=@/null.yaml", INVALID,
     "@/null.yaml:1: sink_tokens: \"\" is not a whole number"},
    {GEN, DEMO, "--config=@/zero.yaml", STATUS_CORRUPT, "@/zero.yaml:1: kv_scales: a zero byte"},
    {GEN, DEMO, "--config=@/pair.yaml", INVALID,
     "@/pair.yaml:2: kv_disk_size: already given in line 1"},
    {GEN, DEMO, "--config=@/number.yaml", INVALID,
     "@/number.yaml:1: snapshot_tokens: \"1e3\" is not a whole number"},
    {GEN, DEMO, "--config=@/open.yaml", STATUS_CORRUPT,
     "@/open.yaml:2: found unexpected end of stream"},
    /* blocks */
    {GEN, DEMO, "--kv-block-tokens=4", INVALID, "--kv-block-tokens: 4 is not between 8 and 128"},
    {GEN, DEMO, "--kv-block-tokens=256", INVALID,
     "--kv-block-tokens: 256 is not between 8 and 128"},
    {GEN, DEMO, "--kv-block-tokens=24", INVALID,
     "kv_block_tokens is 24, not a power of two from 8 to 128"},
    {GEN, DEMO, "--kv-block-tokens=-16", INVALID,
     "--kv-block-tokens: \"-16\" is not a whole number"},
    {GEN, STATES, "--kv-dtype=int8", INVALID,
     "kv_dtype is int8, but " STATES
     " has no scales of K and V: make them with `kvferry calibrate MODEL --text FILE`"},
    {GEN, LATENT, "--kv-dtype=int8", INVALID,
     "kv_dtype is int8, but " LATENT
     " has no scales of K and V: make them with `kvferry calibrate MODEL --text FILE`"},
    {GEN, UNEQUAL, "--kv-dtype=int8", INVALID,
     "kv_dtype is int8, but " UNEQUAL
     " has no scales of K and V: make them with `kvferry calibrate MODEL --text FILE`"},
    {GEN, ENCODER, "--max-context-tokens=16777216", INVALID,
     "max_context_tokens is 16777216; the model supports 16384"},
};
#define N_CASES (sizeof CASES / sizeof *CASES)

_Static_assert(N_CASES == 167, "docs/proofs.md counts them");

/* text, with what its signs stand for. */
static void place(const char *text, char out[TEXT_MAX])
{
    size_t n = 0;
    for (; *text; text++) {
        if (*text == '@')
            n += (size_t)snprintf(out + n, TEXT_MAX - n, "%s", bad_files_path());
        for (int i = 0; *text == '~' && i < 4096; i++)
            out[n++] = 'a';
        if (*text != '@' && *text != '~')
            out[n++] = *text;
    }
    out[n] = '\0';
}

static enum status check(const struct bad_row *bad, struct error *error)
{
    static char *const NO_ENVIRONMENT[] = {NULL};
    char rows[TEXT_MAX];
    char *argv[ARGUMENTS_MAX] = {(char *)(uintptr_t)bad->model, "--control-address=127.0.0.1:0",
                                 "--health-address=127.0.0.1:0", "--metrics-address="};
    int argc = 4;
    place(bad->rows, rows);
    for (char *at = rows; at;)
        argv[argc++] = strsep(&at, " ");
    const struct config_input input = {.command = "kvferry",
                                       .usage = "MODEL",
                                       .argc = argc,
                                       .argv = argv,
                                       .environment = NO_ENVIRONMENT};
    return role_check(bad->role, &input, error);
}

Test(bad_rows, each_has_its_sentence_before_a_start)
{
    for (size_t i = 0; i < N_CASES; i++) {
        char sentence[TEXT_MAX];
        struct error error = {""};
        const enum status status = check(&CASES[i], &error);
        place(CASES[i].sentence, sentence);
        cr_expect_eq(status, CASES[i].status, "%.200s: %s", CASES[i].rows, status_name(status));
        cr_expect_str_eq(error.text, sentence);
    }
}
