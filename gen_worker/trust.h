/*
 * trust - what a generation worker gives up when it stops believing a life of a context worker.
 *
 * It does when that life contradicts itself:
 *
 *     blocks arrive that are not the ones it announced     CORRUPT, by a digest or a piece's checksum
 *     it refuses the commit of a transfer whose stream it  NOT_HELD: what was read may have been
 *     has left open                                        anything
 *     it describes itself with another model or geometry   GEOMETRY_MISMATCH
 *     than before
 *
 * What it brought earlier passed the same checks, and may still be as wrong. Not a contradiction: it
 * died, is silent or slow, has no room, ended the stream (then a refused commit only says so), computed
 * another first token (its math may be another), or spoke nonsense. Nor does a new life at the same
 * address say anything of the old one, whatever its model is: the old one's blocks were judged by the
 * old one's digest.
 *
 * It may be asked again: what it brings then is judged anew.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/gen_home.h"

/* Ends the sequences that use a block of that incarnation's with TRANSFER_FAILED, which says that
 * another attempt may succeed; lets its hand-overs fail; drops its cached blocks and all that was
 * computed on them. May end any sequence: look at its state afterwards. */
void trust_withdraw(const struct gen_home *home, uint64_t incarnation, uint64_t now_ns);
