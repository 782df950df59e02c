#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes what is installed beside the code: manual pages and completions.

    make.py program OUT PROGRAM PAGE    completion/*, man1/outlast-COMMAND.1
    make.py calls OUT VERSION HEADER... man3/*.3, a page a public call and a page a header

Options, their values and their meaning are those that PROGRAM --help prints from its tables of settings; what a command
does is said in PAGE, the manual page of the whole program. What a call promises is the comment above it.
"""
import dataclasses
import pathlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable

LABELS = {"Returns": "RETURN VALUE", "Errors": "ERRORS", "Blocks, threading, errors": "ERRORS",
          "Blocks": "BLOCKING", "Threading": "THREADS"}


def main(words: list[str]) -> None:
    if len(words) == 4 and words[0] == "program":
        program_make(pathlib.Path(words[1]), words[2], pathlib.Path(words[3]))
    elif len(words) > 3 and words[0] == "calls":
        calls_make(pathlib.Path(words[1]), words[2], [pathlib.Path(word) for word in words[3:]])
    else:
        sys.exit(__doc__)


def write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# --- the program ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Option:
    name: str  # without the dashes
    value: str  # NAME, TEXT, N, X, SIZE, TIME, or "": none
    default: str
    help: str

    @property
    def choices(self) -> list[str]:
        """A NAME's: the help ends in them."""
        found = re.search(r"\(([^()]*)\)$", self.help)
        return found[1].split(", ") if self.value == "NAME" and found else []

    @property
    def short(self) -> str:
        """As much of the help as stands in a line of a completion."""
        return textwrap.shorten(re.split(r"[;:.] | \(", self.help)[0], 72, placeholder=" ...")


@dataclasses.dataclass
class Command:
    words: str  # "serve", "bench push"
    summary: str
    options: list[Option]
    usage: str
    examples: list[str]
    parts: list["Command"]  # the measurements of bench

    @property
    def takes_file(self) -> bool:
        """A word that is no option names a file."""
        return self.usage.endswith(" FILE")


def command_ask(program: str, words: str, summary: str) -> Command:
    text = subprocess.run([program, *words.split(), "--help"], check=True, capture_output=True, text=True).stdout
    lines = text.splitlines()
    options: list[Option] = []
    column = 0  # in which the meaning begins
    for line in lines:
        if line.startswith("  option "):
            column = line.index("meaning")
        found = re.match(r"  --([a-z0-9-]+)(?: ([A-Z]+))?(?:  +(\S+))?", line)
        if column and found:
            default = "" if found[1] == "help" else found[3] or ""
            options.append(Option(found[1], found[2] or "", default, line[column:].strip()))
        elif column and options and line[:column].strip() == "" and line.strip():
            options[-1].help = f"{options[-1].help} {line.strip()}".strip()
        elif options and options[-1].name == "help":
            break
    inner = re.search(r"^(?:commands|measurements):\n(.*?)\n\n", text, re.S | re.M)
    rows = re.findall(r"^  ([a-z]+) +(.+)$", inner[1], re.M) if inner and not options else []
    parts = [command_ask(program, f"{words} {name}".strip(), says) for name, says in rows]
    examples = lines[lines.index("examples:") + 1:] if "examples:" in lines else []
    examples = examples[:examples.index("")] if "" in examples else examples
    return Command(words, summary, options, lines[0], [line.strip() for line in examples], parts)


def leaves(command: Command) -> list[Command]:
    """The commands that take options."""
    return [command] if command.options else [leaf for part in command.parts for leaf in leaves(part)]


def program_make(out: pathlib.Path, program: str, page: pathlib.Path) -> None:
    whole = command_ask(program, "", "")
    if len(whole.parts) < 5 or any(not leaves(part) for part in whole.parts):
        sys.exit(f"make.py: {program} --help is not understood")
    write(out / "completion/outlast", bash_text(whole))
    write(out / "completion/_outlast", zsh_text(whole))
    write(out / "completion/outlast.fish", fish_text(whole))
    text = page.read_text(encoding="utf-8")
    for part in whole.parts:
        write(out / f"man1/outlast-{part.words}.1", command_page(part, text))


def names(command: Command) -> str:
    return " ".join(part.words.split()[-1] for part in command.parts)


def switches(options: list[Option]) -> list[str]:
    found = [f"--{option.name}" for option in options]
    return found + [f"--no-{option.name}" for option in options if not option.value and option.name != "help"]


def bash_text(whole: Command) -> str:
    lines = ["# bash completion of outlast; made from its tables of settings", "_outlast() {",
             '	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]-}',
             '	local words="" texts="" numbers=""',
             '	if [[ $word == = ]]; then', '		word=""', '	elif [[ $before == = ]]; then',
             '		before=${COMP_WORDS[COMP_CWORD - 2]}', '	fi',
             '	case $COMP_CWORD:$command in', f'	1:*) words="{names(whole)} --help --version" ;;']
    lines += [f'	2:{part.words}) words="{names(part)} --help" ;;' for part in whole.parts if part.parts]
    lines += ["	esac", '	if [[ -z $words ]]; then']
    lines += [f'		[[ $command != {part.words} ]] || command+="-${{COMP_WORDS[2]}}"' for part in whole.parts if part.parts]
    lines += ["		case $command in"]
    choices: dict[str, list[str]] = {}
    for leaf in (leaf for part in whole.parts for leaf in leaves(part)):
        name = leaf.words.replace(" ", "-")
        lines += [f"		{name})", f'			words="{" ".join(switches(leaf.options))}"',
                  f'			texts="{with_dashes(leaf, lambda option: option.value == "TEXT")}"',
                  f'			numbers="{with_dashes(leaf, lambda option: option.value not in ("", "TEXT", "NAME"))}"',
                  "			;;"]
        for option in leaf.options:
            if option.choices:
                choices.setdefault(" ".join(option.choices), []).append(f"{name}:--{option.name}")
    lines += ["		esac", "		case $command:$before in"]
    for values, patterns in choices.items():
        lines += [f'		{" | ".join(patterns)}) words="{values}" ;;']
    lines += ["		esac", "	fi", '	COMPREPLY=()', "	# a text may be a file: the shell's own completion",
              '	[[ " $texts " != *" $before "* ]] || return 0',
              '	if [[ " $numbers " == *" $before "* ]]; then', "		compopt +o default", "		return 0", "	fi",
              '	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")', "}",
              "complete -o default -F _outlast outlast", ""]
    return "\n".join(lines)


def with_dashes(command: Command, fits: Callable[[Option], bool]) -> str:
    return " ".join(f"--{option.name}" for option in command.options if fits(option))


def zsh_option(option: Option) -> str:
    says = re.sub(r"[\[\]':\\]", "", option.short)
    if not option.value:
        return f"'--{option.name}[{says}]'"
    action = f"({' '.join(option.choices)})" if option.choices else "_files" if option.value == "TEXT" else " "
    return f"'--{option.name}=[{says}]:{option.value}:{action}'"


def zsh_text(whole: Command) -> str:
    def describe(command: Command) -> list[str]:
        rows = " ".join(f"'{part.words.split()[-1]}:" + re.sub(r"[':\\]", "", part.summary) + "'"
                        for part in command.parts)
        return [f"	local -a found=({rows})", "	_describe command found"]

    lines = ["#compdef outlast", "# zsh completion of outlast; made from its tables of settings", "_outlast() {",
             "	local at=2 command=$words[2]", "	if ((CURRENT == 2)); then", *("	" + line for line in describe(whole)),
             "		return", "	fi"]
    for part in whole.parts:
        if part.parts:
            lines += [f"	if [[ $command == {part.words} ]]; then", "		if ((CURRENT == 3)); then",
                      *("		" + line for line in describe(part)), "			return", "		fi",
                      '		at=3 command+=" $words[3]"', "	fi"]
    lines += ["	shift $((at - 1)) words", "	((CURRENT -= at - 1))", "	case $command in"]
    for leaf in (leaf for part in whole.parts for leaf in leaves(part)):
        rows = " \\\n			".join([*map(zsh_option, leaf.options), *["':file:_files'"] * leaf.takes_file])
        lines += [f"	'{leaf.words}')", f"		_arguments {rows}", "		;;"]
    lines += ["	esac", "}", '_outlast "$@"', ""]
    return "\n".join(lines)


def fish_text(whole: Command) -> str:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    lines = ["# fish completion of outlast; made from its tables of settings", "complete -c outlast -f"]
    for part in whole.parts:
        lines += [f"complete -c outlast -n __fish_use_subcommand -a {part.words} -d {quoted(part.summary)}"]
        if part.parts:
            inner = names(part)
            seen = f"__fish_seen_subcommand_from {part.words}; and not __fish_seen_subcommand_from {inner}"
            lines += [f"complete -c outlast -n '{seen}' -a {leaf.words.split()[-1]} -d {quoted(leaf.summary)}"
                      for leaf in part.parts]
        for leaf in leaves(part):
            seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in leaf.words.split())
            lines += [f"complete -c outlast -n '{seen}' -F"] * leaf.takes_file
            for option in leaf.options:
                takes = ""
                if option.choices:
                    takes = f" -x -a '{' '.join(option.choices)}'"
                elif option.value:
                    takes = " -r -F" if option.value == "TEXT" else " -x"
                lines += [f"complete -c outlast -n '{seen}' -l {option.name}{takes} -d {quoted(option.short)}"]
    return "\n".join([*lines, ""])


def section(page: str, name: str) -> str:
    found = re.search(rf"^\.SH {name}\n(.*?)(?=^\.SH |\Z)", page, re.M | re.S)
    if not found:
        sys.exit(f"make.py: the manual page has no section {name}")
    return found[1]


def command_page(command: Command, page: str) -> str:
    body = section(page, f"OUTLAST {command.words.upper()}")
    lines = [f'.TH OUTLAST-{command.words.upper()} 1 "" "outlast" "User Commands"', ".SH NAME",
             f"outlast-{command.words} \\- {roff(command.summary)}", ".SH SYNOPSIS", ".nf",
             *(roff(leaf.usage.replace("usage: ", "")) for leaf in leaves(command)), ".fi",
             ".SH DESCRIPTION", body.rstrip()]
    if "\n.TP" not in body:  # its options are not in the page of the whole
        for leaf in leaves(command):
            lines += [f".SH OPTIONS{' OF ' + leaf.words.upper() if command.parts else ''}"]
            for option in leaf.options:
                default = f"; default {option.default}" if option.default not in ("", "-") else ""
                lines += [".TP", f".BI \\-\\-{roff(option.name)} \" {option.value}\"" if option.value
                          else f".B \\-\\-{roff(option.name)}", roff(option.help + default)]
    for name in ("SETTINGS", "EXIT STATUS", "ENVIRONMENT"):
        lines += [f".SH {name}", section(page, name).rstrip()]
    examples = command.examples or [line for leaf in leaves(command) for line in leaf.examples]
    if examples:
        lines += [".SH EXAMPLES", ".nf", *(roff(line) for line in examples), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR outlast (1)", ""])


# --- the calls -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Call:
    names: list[str]  # the first is the page's
    header: str
    prototypes: list[str]
    comment: list[str]  # paragraphs


def roff(text: str, known: frozenset[str] = frozenset()) -> str:
    """Plain text as it stands in a page, from the beginning of a line on."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"(?<![A-Za-z0-9])-(?=[A-Za-z0-9-])|(?<=-)-", r"\\-", text)
    text = re.sub(r"`([^`]*)`", r"\\fI\1\\fR", text)
    text = re.sub(r"\b(ol_[a-z0-9_]+)\(\)",
                  lambda found: f"\\fB{found[1]}\\fR" + ("(3)" if found[1] in known else "()"), text)
    text = re.sub(r"\b(OL_[A-Z0-9_]*[A-Z0-9])\b", r"\\fB\1\\fR", text)
    text = "".join(char if ord(char) < 128 else f"\\[u{ord(char):04X}]" for char in text)
    return "\\&" + text if text[:1] in (".", "'") else text


def plain(text: str) -> str:
    """The same without fonts, as whatis reads it."""
    return re.sub(r"\\f[BIR]", "", roff(text))


def sentence(text: str) -> str:
    text = text if re.match(r"[A-Za-z]\w*_", text) else text[:1].upper() + text[1:]
    return text if text.endswith((".", ":")) else text + "."


def paragraphs(comment: str) -> list[str]:
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip()[2:-2].strip().splitlines()]
    return [" ".join(line.strip() for line in part.splitlines()) for part in "\n".join(lines).split("\n\n") if part.strip()]


CALL = re.compile(r"(?P<comment>/\*(?:[^*]|\*(?!/))*\*/\n)?"
                  r"(?P<code>^OL_API (?P<one>[^;]*?\b(?P<name>ol_[a-z0-9_]+)\([^;]*\));\n"
                  r"(?:static inline (?P<two>[^{]*?\b(?P<plain>ol_[a-z0-9_]+)\([^{]*\))\n\{\n.*?^\}\n)?)", re.S | re.M)


def header_read(path: pathlib.Path) -> tuple[list[Call], list[str], str]:
    """Its calls, the paragraphs of its first comment, and what else it declares."""
    text = path.read_text(encoding="utf-8")
    first, rest = text.split(f"#ifndef {path.stem.upper()}_H\n", 1)
    calls: list[Call] = []
    end = -1
    for found in CALL.finditer(rest):
        called = [found["plain"], found["name"]] if found["plain"] else [found["name"]]
        shown = [re.sub(r"\s+", " ", found[key]) + ";" for key in ("two", "one") if found[key]]
        if found["comment"]:
            calls.append(Call(called, path.name, shown, paragraphs(found["comment"])))
        elif calls and found.start() == end:  # right behind a call: the comment is of both
            calls[-1].names += called
            calls[-1].prototypes += shown
        else:
            sys.exit(f"make.py: {path}: {called[0]}() has no comment")
        end = found.end()
    other = CALL.sub("", rest)
    frame = r"^#(?:ifdef __cplusplus\n.*?\n#endif|define OUTLAST_\w+|endif[^\n]*|include [^\n]*)\n"
    other = re.sub(frame, "", other, flags=re.S | re.M)
    other = re.sub(r"^static inline [^;{]*\{\n.*?^\}\n", "", other, flags=re.S | re.M)
    return calls, paragraphs(first[first.index("*/") + 2:]), re.sub(r"\n{3,}", "\n\n", other).strip()


def prose(texts: list[str], known: frozenset[str]) -> list[str]:
    lines: list[str] = []
    for text in texts:
        wrapped = textwrap.wrap(sentence(text), 110, break_on_hyphens=False, break_long_words=False)
        lines += [".PP"] * bool(lines) + [roff(line, known) for line in wrapped]
    return lines


def prototype(text: str) -> list[str]:
    return [roff(line) for line in textwrap.wrap(text, 78, subsequent_indent="    ", break_on_hyphens=False)]


def call_page(call: Call, version: str, known: frozenset[str]) -> str:
    what = call.names[0]
    intro = call.comment[0]
    says = re.sub(rf"^{what} -- |^{what}_sized -- ", "", intro)
    if says == intro:
        sys.exit(f"make.py: {call.header}: the comment of {what}() begins with \"{intro[:40]}\"")
    parts: dict[str, list[str]] = {"DESCRIPTION": []}
    for paragraph in [says, *call.comment[1:]]:
        pieces = re.split(rf"(?:^|(?<=[.)\w]) )({'|'.join(LABELS)}):\s+", paragraph)
        if pieces[0].strip():
            parts["DESCRIPTION"] += [pieces[0].strip()]
        for label, text in zip(pieces[1::2], pieces[2::2]):
            parts.setdefault(LABELS[label], []).append(text.strip())
    summary = textwrap.shorten(re.split(r"[;:.] |[.:;]$", parts["DESCRIPTION"][0])[0], 100, placeholder=" ...")
    about = known.intersection(re.findall(r"\b(ol_[a-z0-9_]+)\(\)", " ".join(call.comment))).difference(call.names)
    also = ["outlast (1)", f"{call.header} (3)", *(f"{name} (3)" for name in sorted(about))]
    lines = [f'.TH {what.upper()} 3 "" "outlast {version}" "Outlast library"', ".SH NAME",
             f"{', '.join(call.names)} \\- {plain(summary.replace('`', ''))}", ".SH SYNOPSIS", ".nf", f"#include <{call.header}>", ""]
    for text in call.prototypes:
        lines += prototype(text)
    lines += ["", "Compile and link with: cc FILE.c $(pkg-config \\-\\-cflags \\-\\-libs outlast)", ".fi"]
    for name in ["DESCRIPTION", *sorted(parts.keys() - {"DESCRIPTION"}, key=list(LABELS.values()).index)]:
        lines += [f".SH {name}", *prose(parts[name], known)]
    return "\n".join([*lines, ".SH SEE ALSO", *(f".BR {name}{',' * (name != also[-1])}" for name in also), ""])


def header_page(path: pathlib.Path, calls: list[Call], about: list[str], other: str, version: str,
                known: frozenset[str]) -> str:
    says = re.sub(r"^\S+ -- ", "", about[0])
    lines = [f'.TH {path.name.upper()} 3 "" "outlast {version}" "Outlast library"',
             ".SH NAME", f"{path.name} \\- {plain(says)}",
             ".SH SYNOPSIS", f"#include <{path.name}>", ".SH DESCRIPTION"]
    lines += prose(about[1:] or [says], known)
    if calls:
        lines += [".SH CALLS"]
        lines += [f".BR {call.names[0]} (3){',' * (call is not calls[-1])}" for call in calls]
    if other:
        lines += [".SH DECLARATIONS", ".nf", *(roff(line.expandtabs(8)) for line in other.splitlines()), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR outlast (1)", ""])


def calls_make(out: pathlib.Path, version: str, headers: list[pathlib.Path]) -> None:
    read = [(path, *header_read(path)) for path in headers]
    known = frozenset(name for _, calls, _, _ in read for call in calls for name in call.names)
    for path, calls, about, other in read:
        write(out / f"man3/{path.name}.3", header_page(path, calls, about, other, version, known))
        for call in calls:
            write(out / f"man3/{call.names[0]}.3", call_page(call, version, known))
            for alias in call.names[1:]:
                write(out / f"man3/{alias}.3", f".so man3/{call.names[0]}.3\n")


if __name__ == "__main__":
    main(sys.argv[1:])
