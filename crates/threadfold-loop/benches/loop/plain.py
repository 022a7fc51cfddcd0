"""A loop as it is written without a library: a list of messages, serialized whole for each request.

Nothing is stored, checked or streamed. Prints, for each turn, the CPU time until then and the bytes
of its request.
"""

import json
import random
import string
import sys
import time

TURNS = int(sys.argv[1])


def words(seed, length):
    chance = random.Random(seed)
    text = ""
    while len(text) < length:
        text += "".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 8))) + " "
    return text


# What the model and the tool say is made before the clock starts, as for the other loop.
answers = [words(number, 400) for number in range(TURNS)]
outputs = [words(TURNS + number, 2000) for number in range(TURNS)]
schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
tools = [{"name": "read", "description": "Reads a file", "input_schema": schema}]
messages = [{"role": "user", "content": [{"type": "text", "text": "Go on until all of it is done."}]}]
began = time.process_time_ns()
lines = []
for number in range(TURNS):
    request = {
        "model": "script",
        "max_tokens": 32000,
        "tools": tools,
        "messages": messages,
        "stream": True,
    }
    body = json.dumps(request).encode()
    call = f"call_{number}"
    use = {"type": "tool_use", "id": call, "name": "read", "input": {"path": "src/main.rs"}}
    text = {"type": "text", "text": answers[number]}
    messages.append({"role": "assistant", "content": [text, use]})
    content = [{"type": "text", "text": outputs[number]}]
    result = {"type": "tool_result", "tool_use_id": call, "content": content}
    messages.append({"role": "user", "content": [result]})
    lines.append((time.process_time_ns() - began, len(body)))
for time_until_then, size in lines:
    print(time_until_then, size)
