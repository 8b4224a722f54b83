/*
 * trust - what a generation worker drops when it no longer trusts an incarnation of a context worker.
 *
 * An incarnation loses the trust when it contradicts itself:
 *
 *     blocks arrive that are not the ones it announced     CORRUPT, by a digest or a piece's checksum
 *     it refuses the commit of a transfer whose stream is  NOT_HELD: the blocks that were read may
 *     still open                                           have been anything
 *     it describes itself with another model or geometry   GEOMETRY_MISMATCH
 *     than before
 *
 * Its earlier blocks passed the same checks, and may be just as wrong. No contradiction: it died, is silent or slow, has no
 * room, ended the stream (then it must refuse the commit), computed another first token (its math may differ), or sent malformed
 * messages. A new incarnation at the same address says nothing about the old one, whatever its model is: the blocks of the old
 * one were accepted with its own identity.
 *
 * It may get new prefills; their blocks are checked as any others.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/gen_home.h"

/* Ends the sequences that use a block from that incarnation with TRANSFER_FAILED, after which another attempt may succeed. Its
 * hand-overs fail. Its cached blocks are dropped, with all that was computed from them. Any sequence may have ended: look at its
 * state afterwards. */
void trust_withdraw(const struct gen_home *home, uint64_t incarnation, uint64_t now_ns);
