"""lm-eval's `local-completions` before the OpenAI-compatible port: it sends each choice of a question behind the question, with echo, and
sums the log-probabilities of the choice's tokens.

    openai_lm_eval.py KVFERRY_BINARY MODEL_FOLDER

The questions are local, and nothing is fetched. Each sum must be that of what kvferry.v1 says of the same text.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import lm_eval
from lm_eval.tasks import TaskManager
from openai_case import BINARY, LIMIT_S, LONG, MODEL, NAME, start_cluster, stop_cluster, url_of

QUESTIONS = [
    {"question": LONG + "In the beginning God created the heaven and the", "choices": [" earth", " aeroplane", " sea"], "answer": 0},
    {"question": LONG + "And God said, Let there be", "choices": [" light", " a pilot"], "answer": 0},
    {"question": LONG + "And the LORD said unto", "choices": [" Moses", " the passengers", " me, I will bring the men of thy land"],
     "answer": 0},
]
TASK = """
task: kvferry_small
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
target_delimiter: ""
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


def setUpModule():
    global cluster
    cluster = start_cluster()


def tearDownModule():
    stop_cluster(cluster)


def evaluated():
    """lm-eval's results, and of each question [(log-probability, is greedy)] of its choices."""
    with tempfile.TemporaryDirectory() as folder:
        data, task = pathlib.Path(folder) / "test.jsonl", pathlib.Path(folder) / "kvferry_small.yaml"
        data.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
        task.write_text(TASK % data)
        os.environ["HF_DATASETS_CACHE"] = folder
        found = lm_eval.simple_evaluate(
            model="local-completions", tasks=["kvferry_small"], log_samples=True, bootstrap_iters=0,
            task_manager=TaskManager(include_path=folder, include_defaults=False),
            model_args={"model": NAME, "base_url": url_of(cluster) + "/completions", "tokenizer": MODEL,
                        "tokenizer_backend": "huggingface", "max_retries": 1, "num_concurrent": 1})
    samples = sorted(found["samples"]["kvferry_small"], key=lambda sample: sample["doc_id"])
    return found["results"]["kvferry_small"], [sample["filtered_resps"] for sample in samples]


def told(text):
    """[(text, log-probability, is likeliest)] of its tokens, as kvferry.v1 says."""
    done = subprocess.run([BINARY, "generate", "--server", cluster.router.ports["grpc"], "--max-tokens", "1", "--json",
                           "--add-special-tokens=no", "--prompt-logprobs", "1", text],
                          capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return [(row["text"], row["logprob"], row["top"] and row["top"][0]["logprob"] == row["logprob"])
            for row in json.loads(done.stdout)["prompt_logprobs"]]


def expected(question, choice):
    tokens, n_left, of_choice = told(question + choice), len(choice), []
    while n_left > 0:
        of_choice.insert(0, tokens[len(tokens) - 1 - len(of_choice)])
        n_left -= len(of_choice[0][0])
    assert n_left == 0, "a token is of both"
    return sum(token[1] for token in of_choice), all(token[2] for token in of_choice)


class LmEval(unittest.TestCase):
    def test_each_sum_is_that_of_kvferry_v1(self):
        results, answers = evaluated()
        self.assertEqual(len(answers), len(QUESTIONS))
        n_right = 0
        for question, choices in zip(QUESTIONS, answers):
            wanted = [expected(question["question"], choice) for choice in question["choices"]]
            self.assertEqual([bool(greedy) for _, greedy in choices], [greedy for _, greedy in wanted])
            for (found, _), (value, _) in zip(choices, wanted, strict=True):
                self.assertAlmostEqual(float(found), value, delta=1e-9)
            values = [value for value, _ in wanted]
            n_right += values.index(max(values)) == question["answer"]
        self.assertAlmostEqual(results["acc,none"], n_right / len(QUESTIONS))
        self.assertGreater(n_right, 0, "the model knows its book")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
