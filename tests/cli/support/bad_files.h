/* bad_files - a temporary folder of files that no row takes: scales of K and V, and places for a kv_disk. */
#pragma once

/*
 *     folder/              empty
 *     taken/               a file kv-blocks
 *     file                 one byte
 *     empty                no bytes
 *     good                 scales of 2 layers
 *     cut                  the same without its last byte
 *     long                 with a byte behind it
 *     layers               of 3 layers
 *     nan, zero, minus, infinite, huge, tiny     one scale is that
 *     twice                k_largest two times
 *     halves               of F16
 *     square               of two dimensions
 *     no_v, no_k           without that tensor
 *     text                 no safetensors at all
 *     far                  its header is longer than the file
 *     fifo                 a FIFO
 *     link                 a symbolic link to nothing
 *     large                more than a file of scales may have
 *     twice.yaml ...       configurations: see bad_files.c
 */
void bad_files_make(void);
void bad_files_remove(void);
const char *bad_files_path(void);
