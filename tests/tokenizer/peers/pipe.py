"""tokenizer_pipe of one folder, as two calls."""
import json
import subprocess
import tempfile


class Pipe:
    def __init__(self, binary, folder):
        self.command = [binary, str(folder)]

    def _ask(self, requests):
        with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
            for request in requests:
                file.write(json.dumps(request) + "\n")
            file.seek(0)
            done = subprocess.run(self.command, stdin=file, capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(self.command)}: {done.stderr.decode()}")
        return [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]

    def encode(self, texts, add_special):
        """Lists of ids; a text where it was refused."""
        return self._ask({"text": t, "add_special": a} for t, a in zip(texts, add_special))

    def decode(self, lists, skip_special):
        """Pairs of texts: of all ids at once, and token by token."""
        return self._ask({"ids": i, "skip_special": s} for i, s in zip(lists, skip_special))
