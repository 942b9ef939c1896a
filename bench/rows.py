"""All rows, in the order of their names.

A row makes its contenders; what they hold open is closed by the stack. A peer is one more contender in a
row's list, against the same limit.
"""

from __future__ import annotations

import time

from bench import agents, catalogs, engine, processes, shells
from bench.row import Row

ROWS = {
    row.name: row
    for row in (
        Row("P1", "durable append of one turn: 4 messages, 4.6 KB", engine.durable_append, 3.0),
        Row("P2", "CPU of that append, without the sync", engine.append_cpu, clock=time.process_time),
        Row("P3", "that append, without the sync, as the session grows", engine.growth, 0.5),
        Row("P4", "load 100,000 messages (116 MB) into typed objects", engine.load, 0.1),
        Row("P5", "open at the prompt, the last 100 messages shown", engine.open_at_prompt, 0.5),
        Row("P6", "all of {sessions} sessions, in process", catalogs.list_all, 0.2),
        Row("P7", "the newest 20 of {sessions} sessions, in process", catalogs.list_newest),
        Row("P8", "search {sessions} sessions, in process", catalogs.search, 0.2),
        Row("P9", "cold processes, {sessions} sessions on the machine", processes.cold_start, 0.3),
        Row("P10", "a catalog of {sessions} sessions made, and caught up", catalogs.catch_up, 0.2),
        Row("P11", "fork 10,000 messages into a new file; branch in the file", engine.fork, 0.3),
        Row("P12", "save a 1,000-message session that is one document", engine.save_document, 0.2),
        Row("P13", "the agent loop's own CPU a turn, with one tool call", agents.turn_cpu, 0.05),
        Row("P14", "`pi --print`, from its start to the first byte of the answer", agents.first_answer, 0.2),
        Row("P15", "`pi` at a terminal, from its start to its prompt", shells.to_the_prompt, 0.1),
        Row("P16", "CPU of a delta while an answer of 200 KB is drawn", shells.a_word, 0.05),
        Row("P17", "peak memory of a process", processes.memory, 0.02, unit="bytes"),
    )
}
