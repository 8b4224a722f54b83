"""The structs of kvferry/attention.h and kvferry/kernels.h for ctypes. attention_test.py asks a C compiler whether each
field lies where it says."""

import ctypes
from ctypes import POINTER, c_bool, c_char, c_char_p, c_float, c_int, c_uint32, c_uint64, c_void_p


def of_type(kind, names: str) -> list[tuple]:
    return [(name, kind) for name in names.split()]


class Error(ctypes.Structure):
    NAME = "error"
    _fields_ = [("text", c_char * 320)]


class AttentionBias(ctypes.Structure):
    NAME = "attention_bias"
    _fields_ = [("alibi_scale", c_float), ("table", c_void_p), *of_type(c_uint32, "n_queries n_keys"),
                ("buckets", c_void_p), *of_type(c_uint32, "n_buckets distance_max"), ("is_bidirectional", c_bool)]


class AttentionConfig(ctypes.Structure):
    NAME = "attention_config"
    _fields_ = [*of_type(c_uint32, "layer_index table n_heads n_kv_heads head_dim"), *of_type(c_int, "compute cache"),
                *of_type(c_float, "k_scale v_scale q_scale output_scale q_scaling scale soft_cap"),
                ("bias", AttentionBias), ("sinks", c_void_p), *of_type(c_int, "mask mask_input"), ("window", c_uint32),
                ("is_cyclic", c_bool), ("sink_tokens", c_uint32), ("keys", c_int), ("reuses_prefix", c_bool),
                *of_type(c_uint32, "n_beams_max n_draft_max"), *of_type(c_void_p, "rope qkv_bias"),
                ("qkv_bias_dtype", c_int), *of_type(c_void_p, "q_norm k_norm"), ("norm_dtype", c_int),
                ("norm_eps", c_float), *of_type(c_int, "path math multi_block grouped")]


class KvView(ctypes.Structure):
    NAME = "kv_view"
    _fields_ = [("base", c_void_p), *of_type(c_uint64, "block_stride layer_stride kv_stride head_stride token_stride"),
                *of_type(c_uint32, "n_blocks n_layers block_tokens"), ("is_contiguous", c_bool)]


class AttentionSequence(ctypes.Structure):
    NAME = "attention_sequence"
    _fields_ = [("request_id", c_uint64), ("phase", c_int), *of_type(c_uint32, "query_len kv_len prompt_len"),
                ("block_ids", POINTER(c_uint32)), *of_type(c_uint32, "n_blocks window n_beams"), ("cache_source", c_void_p),
                ("cache_source_stride", c_uint32), *of_type(c_void_p, "positions draft_mask"),
                *of_type(c_uint32, "new_len query_index key_index"), ("is_dummy", c_bool)]


class AttentionStep(ctypes.Structure):
    NAME = "attention_step"
    _fields_ = [("sequences", POINTER(AttentionSequence)), ("n_sequences", c_uint32), ("is_dummy", c_bool),
                *of_type(c_uint32, "padded_query_len padded_new_len")]


class AttentionLimits(ctypes.Structure):
    NAME = "attention_limits"
    _fields_ = [*of_type(c_uint32, "n_sequences_max n_tokens_max n_contexts_max n_generations_max n_context_tokens_max "
                                   "n_kv_tokens_max kv_len_max n_heads n_kv_heads head_dim"),
                *of_type(c_int, "cache keys mask"), *of_type(c_uint32, "window sink_tokens"), ("is_cyclic", c_bool),
                *of_type(c_uint32, "n_tables n_beams_max n_draft_max"), *of_type(c_bool, "has_short_path has_multi_block"),
                *of_type(c_uint32, "block_tokens_min bias_queries bias_keys"), ("ropes", c_void_p * 4), ("beside", c_void_p)]


class AttentionIo(ctypes.Structure):
    NAME = "attention_io"
    _fields_ = [*of_type(c_void_p, "q k v"), *of_type(c_uint64, "q_stride k_stride v_stride"), ("output", c_void_p),
                ("output_stride", c_uint64), ("lse", c_void_p), ("is_written", c_bool), ("mask", c_void_p),
                *of_type(c_uint64, "mask_sequence_stride mask_query_stride")]


def function(*arguments):
    """A function that returns a status."""
    return ctypes.CFUNCTYPE(c_int, *arguments)


def destroyer():
    return ctypes.CFUNCTYPE(None, c_void_p)


class AttentionBackend(ctypes.Structure):
    NAME = "attention_backend"
    _fields_ = [("name", c_char_p), ("features", c_uint64),
                ("create", function(POINTER(AttentionConfig), c_void_p, POINTER(c_void_p), POINTER(Error))),
                ("destroy", destroyer()),
                ("metadata_create", function(POINTER(AttentionLimits), c_void_p, POINTER(c_void_p), POINTER(Error))),
                ("metadata_destroy", destroyer()),
                ("metadata_prepare", function(c_void_p, POINTER(AttentionStep), POINTER(KvView), POINTER(Error))),
                ("metadata_make_static", function(c_void_p, c_uint32, c_uint32, POINTER(Error))),
                ("metadata_arena_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, c_void_p)),
                ("metadata_use_arena", ctypes.CFUNCTYPE(None, c_void_p, c_void_p)),
                ("kv_update", function(c_void_p, c_void_p, POINTER(AttentionIo), POINTER(Error))),
                ("forward", function(c_void_p, c_void_p, POINTER(AttentionIo), POINTER(Error)))]


class Kernels(ctypes.Structure):
    NAME = "kernels"
    _fields_ = [("name", c_char_p), ("attention", POINTER(AttentionBackend))]  # its beginning


STRUCTS = (Error, AttentionBias, AttentionConfig, KvView, AttentionSequence, AttentionStep, AttentionLimits, AttentionIo,
           AttentionBackend, Kernels)


def layout() -> str:
    """What layout_source prints, as ctypes sees it."""
    return "".join(f"{struct.NAME}.{name} {getattr(struct, name).offset} {getattr(struct, name).size}\n"
                   for struct in STRUCTS for name, _ in struct._fields_)


def layout_source() -> str:
    """A C program that prints place and size of each field."""
    lines = [f'printf("{struct.NAME}.{name} %zu %zu\\n", offsetof(struct {struct.NAME}, {name}), '
             f"sizeof((struct {struct.NAME} *)0)->{name});" for struct in STRUCTS for name, _ in struct._fields_]
    return ("#include <kvferry/kernels.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n"
            + "\n".join(lines) + "\nreturn 0;\n}\n")
