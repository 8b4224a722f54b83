"""A DNS server over UDP for one machine: names and their A and AAAA records, changed while it runs.

    server = NameServer("127.0.0.53"); server.records["ctx.test"] = ["127.0.1.1", "::1"]
    server.stop(); server.start()          nobody answers at its port; it answers again
    server.is_mute = True                  it takes questions, and never answers
"""

import ipaddress
import socket
import struct
import threading

A, AAAA = 1, 28
NO_SUCH_NAME = 3
TTL_S = 0


def read_question(packet):
    """(name, type, the bytes of the question)."""
    at, labels = 12, []
    while packet[at]:
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    kind = struct.unpack_from("!H", packet, at + 1)[0]
    return ".".join(labels).lower(), kind, packet[12 : at + 5]


def answer(packet, records):
    name, kind, question = read_question(packet)
    addresses = [ipaddress.ip_address(text) for text in records.get(name, ())]
    wanted = [one for one in addresses if (AAAA if one.version == 6 else A) == kind]
    code = 0 if name in records else NO_SUCH_NAME
    header = packet[:2] + struct.pack("!HHHHH", 0x8180 | code, 1, len(wanted), 0, 0)
    rows = [struct.pack("!HHHIH", 0xC00C, kind, 1, TTL_S, len(one.packed)) + one.packed for one in wanted]
    return header + question + b"".join(rows)


class NameServer:
    def __init__(self, host):
        self.host = host
        self.records = {}
        self.is_mute = False
        self.n_questions = 0
        self.start()

    def start(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.host, 53))
        self.socket.settimeout(0.05)
        self.is_over = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while not self.is_over:
            self._serve_one()

    def _serve_one(self):
        try:
            packet, asker = self.socket.recvfrom(512)
        except (TimeoutError, BlockingIOError):
            return False
        self.n_questions += 1
        if not self.is_mute:
            self.socket.sendto(answer(packet, dict(self.records)), asker)
        return True

    def stop(self):
        self.is_over = True
        self.thread.join()
        self.socket.setblocking(False)
        while self._serve_one():  # who asked and hears nothing, waits long before it finds that nobody is there
            pass
        self.socket.close()
