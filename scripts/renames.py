#!/usr/bin/env python3
"""Shows that the goldens of this checkout are those of the commit before the renames,
with the old words replaced, and nothing else.

    scripts/renames.py [BASE]

It reads the goldens of BASE (f6de1db) by git show, replaces words by docs/upgrading.md and
by the lists below, and compares them with the files here. What no list explains is printed,
and the exit code is 1. What it cannot compare it names.
"""
import gzip, re, subprocess, sys

BASE = sys.argv[1] if len(sys.argv) > 1 else "f6de1db"

def git(*args):
    return subprocess.run(["git", *args], capture_output=True, check=True).stdout

def old(path):
    return git("show", f"{BASE}:{path}").decode()

def here(path):
    return open(path, encoding="utf-8").read()

def table(heading):
    """The rows of a table of docs/upgrading.md, without backquotes."""
    part = here("docs/upgrading.md").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in part.splitlines() if line.startswith("|")]
    return rows[2:]

problems = 0

def report(title, equal, missing, added, note=""):
    global problems
    problems += len(missing) + len(added)
    print(f"{title}: {equal} equal, {len(missing) + len(added)} not explained{note}")
    for sign, lines in ("-", missing), ("+", added):
        for line in lines[:20]:
            print(f"  {sign} {line[:300]}")

def compare(title, before, after, note=""):
    """Compares two lists as multisets."""
    left = {}
    for line in before:
        left[line] = left.get(line, 0) + 1
    added, equal = [], 0
    for line in after:
        if left.get(line):
            left[line] -= 1
            equal += 1
        else:
            added.append(line)
    report(title, equal, [line for line, n in left.items() for _ in range(n)], added, note)

def replaced(text, pairs):
    for a, b in pairs:
        text = re.sub(a, b, text)
    return text

# Topics, groups and paths of pages.
NAME = r"[A-Za-z0-9_-]+"
TOPICS = [
    (rf"(?<![\w.-])dlq\.({NAME}(?:\.{NAME})?)", r"\1.dlq"),
    (rf"(?<![\w.-])redrive\.({NAME}(?:\.{NAME})?)", r"\1.redrive"),
    (rf"\b({NAME})\.merged\b", r"\1.repartition"),
    (rf"\b({NAME})\.from-({NAME})", r"\1.repartition.\2"),
    (rf"\bgenerations\.({NAME})", r"\1.generations"),
]

def helps():
    texts = [
        ("Sessions of each pipeline, which share its partitions", "Members of the group of each pipeline in this process, which share its partitions"),
        ("Let a pipeline go on that stands still because of dlq.abort_above", "Resume a pipeline that stopped because of dlq.stop_above"),
        ("in each hop, beside", "in each phase, beside"), ("Draw the hops", "Draw the phases"), ("<letter>", "<id>"), ("of the letter as ls", "of the dead letter as ls"),
        ("Drop every letter", "Drop every dead letter"), ("List the events that a pipeline has parked,", "List the events in the async queue of a pipeline,"),
        ("Call for parked events at once, whenever they are due. A process has to", "Call for queued events at once, before they are due. A process must"),
        ("Give parked events up: they become dead letters. A process has to", "Give queued events up: they become dead letters. A process must"),
        ("Compute what a pipeline read again with a changed model or file,", "Process the history of a pipeline again with a changed model or file,"),
        ("due, class, tenant", "due, priority, tenant"), ("see afterbay rederive", "see afterbay reprocess"), ("STAGE=TIME", "PHASE=TIME"), ("SHARE", "RATIO"),
    ]
    flags = {}
    for command, a, b in table("Flags"):
        flags.setdefault(command, []).append((rf"(?<![\w-]){a}(?![\w-])", b))
    renamed = {a: b for a, b in [row[:2] for row in table("Commands")]}
    def sections(text, mapped):
        for part in re.split(r"(?m)^\$ ", text)[1:]:
            command = re.match(r"afterbay ?(.*?) ?--help", part)[1]
            part = " ".join(part.split())
            if mapped:
                for a, b in sorted(renamed.items(), key=lambda r: -len(r[0])):
                    part = re.sub(rf"(afterbay |(?<=[.;] )|(?<=and hand over to it\. )){a}\b", rf"\g<1>{b}", part)
                    part = re.sub(rf" {a}( ls| drop)? (?=List the events|Call for parked|Give parked|Compute what|Measure a pipeline)", rf" {b}\1 ", part)
                    if command == a or command.startswith(a + " "):
                        command = b + command[len(a):]
                for a, b in texts:
                    part = part.replace(a, b)
                part = replaced(part, flags.get(command, []))
            yield part
    compare("help of the commands (cmd/afterbay/testdata/help.txt), by command, white space apart", list(sections(old("cmd/afterbay/testdata/help.txt"), True)), list(sections(here("cmd/afterbay/testdata/help.txt"), False)))

def findings():
    pairs = TOPICS + [(r"\banswers\.yaml", "replies.yaml"), (r"\banswers(?=(: |\[\d+\]:|, commit))", "replies"), ("out of answers", "out of `replies`"), (r"steps, objects or", "steps, content or"),
        (r"open: park", "open: queue"), ("heartbeat.every", "heartbeat.interval"), (r"\{every:", "{interval:"), ("rack, groups or replication", "rack, group_protocol or replication_factor"),
        (r"engine\.groups", "engine.group_protocol"), (r"(?<=   )groups:", "group_protocol:"), ("classic or server", "classic or consumer"), (r"engine\.replication", "engine.replication_factor"), (r"(?<=   )replication:", "replication_factor:"),
        ("afterbay rederive", "afterbay reprocess")]
    def lines(text):  # columns and carets move with the length of a word
        return [re.sub(r"^([^ :]+:\d+):\d+:", r"\1:", line) for line in text.splitlines() if not re.match(r"\s+\|\s+\^$", line)]
    paths = [p for p in git("ls-tree", "-r", "--name-only", BASE, "config/testdata").decode().split() if p.endswith(".txt")]
    changed = {"config/testdata/gateway/name.txt", "config/testdata/lint/sink-names.txt"}  # their texts name the reserved topics now
    before, after = [], []
    for path in paths:
        now = path.replace("/answers.txt", "/replies.txt")
        if path not in changed:
            before += [f"{now}: {line}" for line in lines(replaced(old(path), pairs))]
            after += [f"{now}: {line}" for line in lines(here(now))]
    compare(f"findings in {len(paths) - len(changed)} files (config/testdata)", before, after, f"; not compared, since topics of the engine are reserved now: {', '.join(sorted(changed))}")

def metrics():
    names = {}
    for a, b, _ in table("Metrics"):
        names[a.split("{")[0]] = b.split("{")[0]
    new = {m[1] for m in re.finditer(r"(?m)^\| `(afterbay_\S+)` \|", here("docs/reference/metrics.md"))}
    was = [line.split()[0] for line in old("serve/testdata/metrics.txt").splitlines()]
    mapped = [names.get(n, n) for n in was]
    report("names of metrics (serve/testdata/metrics.txt, docs/reference/metrics.md)", sum(n in new for n in mapped), [f"{o} -> {n}" for o, n in zip(was, mapped) if n not in new], [],
        f"; {len(new - set(mapped))} of the page were in no golden before; labels are not compared")

def plans():
    def lines(text):
        return [line for line in text.splitlines() if not re.match(r"  ((outputs|state|order) [0-9a-f]{32}|(input|feature|group|function|dedupe|table|call) .* [0-9a-f]{16})$", line)]
    compare("stages of all pipelines (testdata/golden/plans.txt)", lines(replaced(old("testdata/golden/plans.txt"), [("rederive.md", "reprocess.md")])), lines(here("testdata/golden/plans.txt")), "; hashes are not compared: fingerprints.txt has their text")

def records():
    def lines(data, pairs):
        for line in gzip.decompress(data).decode().splitlines():
            line = replaced(line, pairs)
            line = re.sub(r"sha256:[0-9a-f]{32}", "sha256:FINGERPRINT", line)
            line = re.sub(r"state: [0-9a-f]{64}", "state: HASH", line)
            yield re.sub(r'(afterbay-id)="[^"]*"', r'\1=""', line) if 'afterbay-pipeline="' in line else line
    path = "scenario/testdata/records.txt.gz"
    compare(f"records of all scenarios ({path})", list(lines(git("show", f"{BASE}:{path}"), TOPICS)), list(lines(open(path, "rb").read(), [])), "; fingerprints, hashes of state and ids of outputs are not compared")

for check in helps, findings, metrics, plans, records:
    check()
print("not compared: testdata/golden/directory.*, which its command makes anew")
sys.exit(problems > 0)
