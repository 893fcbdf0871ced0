"""Speech as text: a model of kind process, with pocketsphinx and a grammar.

    pip install pocketsphinx==5.1.1
    process: [python3, asr.py]                  in a pipeline file; its one input is audio, bytes
    python3 asr.py FILE.wav ...                 prints what each says

A sound is a WAV file of 16 bits, of any rate from 8 kHz and any number of channels. It is cut where it is quiet for a
quarter of a second, and each part is heard as a sentence of the grammar, calls.jsgf, or of the file that GRAMMAR in the
environment names; a part that is none of them is left out. A sound that is
no WAV file, shorter than its head says, longer than 15 minutes, silent, or that says nothing of the grammar is refused, with
what it is. What a sound says depends on nothing heard before.
"""
import array
import os
import struct
import sys

import pocketsphinx

HERE = os.path.dirname(os.path.abspath(__file__))
RATE = 16000  # that the models know
LONGEST = 15 * 60
QUIET = 100  # of 32767: below it there is nothing to hear
PAUSE = 0.25  # of a second, between sentences
inputs = ["audio"]


def chunks(audio):
    """The chunks of a WAV file behind its head, as far as they are there, with the length that each says it has."""
    at = 12
    while at + 8 <= len(audio):
        kind, size = struct.unpack_from("<4sI", audio, at)
        yield kind, size, audio[at + 8:at + 8 + size]
        at += 8 + size + size % 2


def samples(audio):
    """The samples of a WAV file at RATE, 16 bits each."""
    if len(audio) < 12 or audio[:4] != b"RIFF" or audio[8:12] != b"WAVE":
        raise ValueError(f"no WAV file: it begins with {bytes(audio[:4])}")
    format = None
    for kind, size, content in chunks(audio):
        if kind == b"fmt " and len(content) >= 16:
            format = struct.unpack_from("<HHIIHH", content)
        if kind == b"data":
            break
    else:
        raise ValueError("truncated: a WAV file without sound")
    if format is None:
        raise ValueError("a WAV file that does not say what its sound is")
    code, channels, rate, _, _, bits = format
    if code not in (1, 0xFFFE) or bits != 16 or not 1 <= channels <= 16 or not 8000 <= rate <= 192000:
        raise ValueError(f"a WAV file of format {code}, {channels} channels, {rate} Hz and {bits} bits: PCM of 16 bits from 8000 Hz is what is heard")
    second = 2 * channels * rate
    if 0 < size < 0x7FFF0000 and len(content) < size:  # those beside say: until the end, written before it was known
        raise ValueError(f"truncated: {len(content) / second:.2f} s of {size / second:.2f} s are there")
    if len(content) > LONGEST * second:
        raise ValueError(f"{len(content) / second:.0f} s are too long: at most {LONGEST} s are heard")
    sound = array.array("h", bytes(content[:len(content) // (2 * channels) * 2 * channels]))
    if sys.byteorder == "big":
        sound.byteswap()
    if channels > 1:
        sound = array.array("h", (sum(sound[i:i + channels]) // channels for i in range(0, len(sound), channels)))
    return sound if rate == RATE else resampled(sound, rate)


def resampled(sound, rate):
    """The sound at RATE, on straight lines between its samples; of a higher rate the mean of those around."""
    wide = max(1, round(rate / RATE))
    if wide > 1:
        sound = array.array("h", (sum(sound[max(0, i - wide // 2):i + (wide + 1) // 2]) // len(sound[max(0, i - wide // 2):i + (wide + 1) // 2])
                                  for i in range(len(sound))))
    last = len(sound) - 1
    out = array.array("h")
    for i in range(len(sound) * RATE // rate):
        at, part = divmod(i * rate, RATE)
        out.append(sound[at] + (sound[min(at + 1, last)] - sound[at]) * part // RATE)
    return out


def sentences(sound):
    """The parts of a sound that are louder than its pauses, with a little of those."""
    frame = RATE // 50
    peaks = [max(max(sound[i:i + frame]), -min(sound[i:i + frame])) for i in range(0, len(sound), frame)]
    low = max(QUIET, 0.03 * max(peaks, default=0))
    pause = int(PAUSE * 50)
    start = quiet = None
    for i, peak in enumerate(peaks + [0] * (pause + 1)):
        if peak >= low:
            start, quiet = i if start is None else start, 0
        elif start is not None:
            quiet += 1
            if quiet > pause:
                yield sound[max(0, start - 8) * frame:(i - quiet + 9) * frame]
                start = None


class Listener:
    def __init__(self, grammar):
        self.decoder = pocketsphinx.Decoder(jsgf=grammar, lm=None, samprate=RATE, cmn="batch", loglevel="FATAL")

    def hear(self, audio):
        sound = samples(audio)
        loudest = max(max(sound, default=0), -min(sound, default=0))
        if loudest < QUIET:
            raise ValueError(f"silent: nothing in {len(sound) / RATE:.2f} s is louder than {loudest} of 32767")
        said = []
        for part in sentences(sound):
            self.decoder.start_utt()
            self.decoder.process_raw(part.tobytes(), no_search=False, full_utt=True)
            self.decoder.end_utt()
            heard = self.decoder.hyp()
            if heard is not None and heard.hypstr:
                said.append(heard.hypstr)
        if not said:
            raise ValueError(f"silent: nobody says anything of the grammar in {len(sound) / RATE:.2f} s")
        return " ".join(said)


listener = Listener(os.environ.get("GRAMMAR") or os.path.join(HERE, "calls.jsgf"))


def predict(audio):
    return [listener.hear(each) for each in audio]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        for name in sys.argv[1:]:
            with open(name, "rb") as file:
                print(listener.hear(file.read()))
    else:
        sys.path += [HERE, os.path.join(HERE, "..", "..", "model", "process")]
        import worker  # what `afterbay model helper` prints, or that of a clone

        worker.serve(predict, inputs)
