"""Programs that the tests of this folder start."""
import subprocess
import sys


def run(*command, **kwargs):
    """What the command prints; ends the test, saying what the command said, where it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout
