"""Measures LangGraph's SqliteSaver: time and bytes of one checkpoint, early and late."""

import os
import random
import sqlite3
import string
import sys
import time
import uuid

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

AROUND, TURNS = int(sys.argv[1]), [int(it) for it in sys.argv[2].split(",")]


def words(seed, length):
    chance = random.Random(seed)
    text = ""
    while len(text) < length:
        text += "".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 8))) + " "
    return text


def turn(number):
    call = {"id": f"call_{number}", "name": "read", "args": {"path": "src/main.rs"}}
    return [
        {"role": "assistant", "content": words(number, 400), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": words(number + 1, 2000)},
    ]


def size():
    return sum(os.path.getsize(it) for it in os.listdir(".") if it.startswith("saver.db"))


connection = sqlite3.connect("saver.db", check_same_thread=False)
saver = SqliteSaver(connection)
saver.setup()
# As our own store: what is acknowledged survives a power cut.
connection.execute("PRAGMA synchronous = FULL")
config = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
messages = [{"role": "user", "content": "Go on until all of it is done."}]
number = 0
for place in TURNS:
    costs = []
    while number < place + AROUND // 2:
        number += 1
        messages = messages + turn(number)
        if number < place - AROUND // 2:
            continue
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid.uuid4())
        checkpoint["channel_values"] = {"messages": messages}
        checkpoint["channel_versions"] = {"messages": number}
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = size()
        began = time.perf_counter_ns()
        config = saver.put(config, checkpoint, {"step": number}, {"messages": number})
        took = time.perf_counter_ns() - began
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        costs.append(f"{took}:{size() - before}")
    print(" ".join(costs))
