#!/usr/bin/env python3
"""Shows that the goldens of this checkout are those of the commit before the renames,
with the old words replaced, and nothing else.

    scripts/renames.py [BASE]

It reads the goldens of BASE (f6de1db) by git show, replaces words by docs/upgrading.md and
by the lists below, and compares them with the files here. What no list explains is printed,
and the exit code is 1. What it cannot compare it names.
"""
import datetime, gzip, re, subprocess, sys

BASE = sys.argv[1] if len(sys.argv) > 1 else "f6de1db"

def git(*args):
    return subprocess.run(["git", *args], capture_output=True, check=True).stdout

def old(path):
    return git("show", f"{BASE}:{path}").decode()

# Folders that moved after BASE.
MOVED = [(r"(?<![\w/])config/testdata", "internal/config/testdata"), (r"(?<![\w/])testdata/golden", "internal/e2e/testdata/golden"), ("internal/reference", "internal/test/reference")]

def here(path):
    for a, b in MOVED:
        path = re.sub(a, b, path)
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
        ("afterbay rederive", "afterbay reprocess"),
        ("write go, when, inputs, outputs or topics", "write go, when, inputs, outputs, topics or name"), ("write topic, key, when, id or value", "write topic, key, when, id, name or value"),
        (r"(?m)^( *19 \|   - emit: \{topic: answers, value: \[customer\])\}$", r"\1, name: all}")]
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

def label(text):
    """Leaves out what the label of a stage did not have: the name of the step, the first output of a call, the case."""
    text = text.split(" in ")[0].split("#")[0]
    return re.sub(r"^( *call \S+) .*", r"\1", text)

CHANGED = {"emit-same-topic.txt"}  # scenarios whose pipeline has another step now, as their steps need names

def plans():
    """Sections begin with a file and a number. Of labels the names of steps are left out, and so are cases of routes and outputs of calls."""
    def sections(text):
        found = {}
        for line in text.splitlines():
            if re.match(r"\S+\[\d+\] ", line):
                file = line.split("[")[0]
            if not re.match(r"  ((outputs|state|order) [0-9a-f]{32}|(input|feature|group|function|dedupe|table|call) .* [0-9a-f]{16})$", line):
                found.setdefault(file, []).append(", ".join(map(label, line.split(", "))) if line.startswith("  ") else line)
        return found
    before, after = sections(replaced(old("testdata/golden/plans.txt"), [("rederive.md", "reprocess.md")] + MOVED)), sections(here("testdata/golden/plans.txt"))
    new = sorted(set(after) - set(before))
    both = lambda found: [line for file, lines in found.items() if file not in new and file.split("/")[-1] not in CHANGED for line in lines]
    compare("stages of all pipelines (testdata/golden/plans.txt)", both(before), both(after),
        f"; hashes are not compared: fingerprints.txt has their text; has another step: {', '.join(sorted(CHANGED))}; not there before: {', '.join(new)}")

ID = re.compile(r'(?<= )afterbay-id="((?:[^"\\\\]|\\\\.)*)"')

def by_position(text, pipeline, position):
    """Replaces the old id of the event at a position by the new one."""
    place = re.search(r"/(\d+)@(\d+)$", position)
    return re.sub(rf"(?<![\w.]){re.escape(pipeline)}:{place[1]}:{place[2]}(?![:\w])", position, text) if place and pipeline else text

class Ids:
    """The ids of one scenario, old and new. The rules are those of docs/upgrading.md."""

    def __init__(self):
        self.outputs, self.events, self.positions = set(), {}, {}

    def event(self, pipeline, position, a, b):
        """Reports whether the event b is the one that was a: a brought id, a position, an output of another pipeline, or a group."""
        if a == b or (a, b) in self.outputs:
            return True
        old, new = re.fullmatch(rf"{re.escape(pipeline)}(?:\.repartition\.[\w-]+)?:(\d+):(\d+)", a), re.fullmatch(r"[^/~:]+/(\d+)@(\d+)", b)
        if old and new:  # where the record was read first; it is the position of the record itself but for a copy
            if ".repartition/" in position:
                return self.events.setdefault(a, b) == b and self.positions.setdefault(b, a) == a
            return old.groups() == new.groups()
        first, group = a.rpartition(":"), b.rpartition("~")
        return bool(first[1] and group[1]) and first[2] == group[2] and self.event(pipeline, position, first[0], group[0])

    def output(self, pipeline, topic, position, a, b):
        """Returns the rule by which the id a of a record became b; "" is none."""
        if a == b:
            return "id of the file, or of a record that no pipeline wrote"
        if by_position(a, pipeline, position) == b:
            return "id of the file that has the event's"
        match = re.fullmatch(rf"{re.escape(pipeline.split('.repartition.')[0])}:(.*):{re.escape(topic)}(#\w+)?(/[\w@]+)?", b, re.S)
        if not match:
            return ""
        event = match[1]
        timer = re.fullmatch(r"(\w+)~([^~]+)~([^~]+)~[0-9a-f]{16}~(.*)", event, re.S)
        if timer:
            due = datetime.datetime.fromisoformat(timer[2]).timestamp()
            partition = re.search(r"/(\d+)@", position)[1]
            old = f"{pipeline}:{partition}:{timer[4]}:{timer[1]}:{timer[3]}:{round(due * 1e6)}"
            return "timer" if re.fullmatch(re.escape(old) + r"(:\d+)?", a) else ""
        for rule, end in ("dead letter, late event or end", ""), ("emit", r":\d+"), ("function", r":[a-z_]\w*:\d+"), ("partial text", r":\w+:\d+:\d+"):
            old = re.fullmatch(r"(.*?)" + end, a, re.S)
            if old and self.event(pipeline, position, old[1], event):
                return rule
        return ""

def records():
    path = "scenario/testdata/records.txt.gz"
    def files(data, pairs):
        all = {}
        for line in gzip.decompress(data).decode().splitlines():
            line = replaced(line, pairs)
            line = re.sub(r"sha256:[0-9a-f]{32}", "sha256:FINGERPRINT", line)
            line = re.sub(r"state: [0-9a-f]{64}", "state: HASH", line)
            all.setdefault(line.split()[0], []).append(line)
        return all
    def header(line, name):
        found = re.search(rf' {name}="((?:[^"\\\\]|\\\\.)*)"', line)
        return found and found[1]
    def rest(line):
        line = re.sub(r'( afterbay-resume="(?:from )?)([^"]*)', lambda m: m[1] + "; ".join(map(label, m[2].split("; "))), line)
        line = re.sub(r' afterbay-event="(?:[^"\\\\]|\\\\.)*"', "", ID.sub('afterbay-id=""', line))
        return re.sub(r'(\{?\\"meta\.id\\":)\\"[^"]*\\"', r"\1ID", line)
    before, after = files(git("show", f"{BASE}:{path}"), TOPICS), files(open(path, "rb").read(), [])
    left, added, wrong, rules, equal = [], [], [], {}, 0
    for file in sorted(set(before) - CHANGED):
        ids, old = Ids(), {}
        for line in before[file]:
            pipeline = (header(line, "afterbay-pipeline") or "").split(" ")[0]
            old.setdefault(rest(by_position(rest(line), pipeline, header(line, "afterbay-position") or "")), []).append(line)
        pairs = []
        for line in after.get(file, []):
            if old.get(rest(line)):
                pairs.append((old[rest(line)].pop(0), line))
            else:
                added.append(line)
        left += [line for lines in old.values() for line in lines]
        equal += len(pairs)
        made = [(a, b, header(a, "afterbay-id"), header(b, "afterbay-id")) for a, b in pairs]
        ids.outputs = {(x, y) for a, b, x, y in made if x and header(b, "afterbay-pipeline")}
        for a, b, x, y in made:
            if x is None and y is None:
                continue
            pipeline, topic, position = (header(b, "afterbay-pipeline") or " ").split()[:1], b.split()[1].rpartition("/")[0], header(b, "afterbay-position") or ""
            rule = ids.output(pipeline[0] if pipeline else "", topic, position, x or "", y or "")
            rules[rule] = rules.get(rule, 0) + 1
            if not rule:
                wrong.append(f"{b.split()[0]} {topic}: {x} -> {y}")
    new = sorted(set(after) - set(before))
    report(f"records of all scenarios ({path})", equal, left, added, f"; fingerprints and hashes of state are not compared; has another step: {', '.join(sorted(CHANGED))}; not there before: {', '.join(new)}")
    report("ids of these records", sum(n for rule, n in rules.items() if rule), wrong, [], "; " + ", ".join(f"{rule}: {n}" for rule, n in sorted(rules.items()) if rule))

for check in helps, findings, metrics, plans, records:
    check()
print("not compared: testdata/golden/directory.*, which its command makes anew")
sys.exit(problems > 0)
