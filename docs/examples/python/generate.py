"""Prints a completion as it comes: generate.py ADDRESS PROMPT"""

import sys

import grpc
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2

address, prompt = sys.argv[1:]
request = generation_pb2.GenerateRequest(
    text=prompt,
    # What is left out is the model's own default; 0 is not left out.
    sampling=sampling_pb2.SamplingParams(max_tokens=32, temperature=0),
)
with grpc.insecure_channel(address) as channel:
    stub = generation_pb2_grpc.GenerationServiceStub(channel)
    try:
        for reply in stub.Generate(request, timeout=60):
            print(reply.text, end="", flush=True)
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
print()
