"""User-defined environments for tests: a correct one, and several that fail."""

import os
import time


class Echo:
    """Echoes each turn, for a number of turns. The score is the share of turns that contain the word."""

    def __init__(self, word="yes", times=3):
        self.word, self.times, self.heard = word, times, []

    def reset(self, row, seed):
        self.row = row
        return f"{row['name']} {seed % 1000}"

    def step(self, action):
        self.heard.append(action)
        return f"heard {action} of {len(self.heard)}", len(self.heard) == self.times

    def score(self):
        return sum(self.word in str(one) for one in self.heard) / max(1, len(self.heard))


class Moody(Echo):
    """Fails in the way that the action requests."""

    def step(self, action):
        if action == "raise":
            raise ValueError("it is not in the mood")
        if action == "hang":
            time.sleep(600)
        if action == "die":
            os._exit(7)
        if action == "babble":
            return 12, False
        return super().step(action)

    def score(self):
        return 5.0 if "more" in self.heard else super().score()


class Tools(Echo):
    """Counts calls of a tool, and ends with a turn without a call."""

    def step(self, action):
        if isinstance(action, str):
            self.heard.append(action)
            return "", True
        return f"{action['name']} {action['arguments']}", False
