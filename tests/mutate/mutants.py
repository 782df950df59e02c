# SPDX-License-Identifier: BSD-3-Clause
"""mutants.py -- finds the mutants of a C file by clang's syntax tree, and writes them all into a copy of it

A mutant is one change of one place:

	cond	a condition is inverted (not), forced true or forced false; it is evaluated all the same
	call	a call that is a statement is left out
	set	an assignment that is a statement is left out

Conditions are those of if, while, do, for and ?:, the operands of && and ||, and what a function returns as bool.
A mutant's name holds no line number: file, function, kind, a hash of the text, which of the same text, variant.
"""

import hashlib
import json
import re
import subprocess

FLAGS = ["-x", "c", "-std=gnu11", "-D_GNU_SOURCE", "-w", "-fsyntax-only", "-Xclang", "-ast-dump=json",
	"-iquote", ".", "-iquote", "src", "-iquote", "tools", "-iquote", "tests", "-I", "src/include"]
INCLUDE = b'#include "mutate/mutate.h"\n'
VARIANTS = ("not", "true", "false")


class Failed(Exception):
	pass


class Mutant:
	def __init__(self, file, function, kind, text, nth, variant, line):
		digest = hashlib.sha256(text.encode()).hexdigest()[:6]
		self.file, self.function, self.kind, self.variant = file, function, kind, variant
		self.text, self.line = text, line
		self.name = ":".join([file, function, kind, digest, str(nth), variant])
		self.site = self.number = 0 # of the place, as it is reached; of the mutant, as it is switched on


class Place:
	"""A condition, call or assignment, from byte `begin` to `end` of its file"""

	def __init__(self, kind, begin, end, variants):
		self.kind, self.begin, self.end, self.variants = kind, begin, end, variants


def chunks(dump):
	"""The top-level declarations of a dump, as text"""
	begin = None
	for match in re.finditer(r"^    ([{}]),?$", dump, re.M):
		if match.group(1) == "{":
			begin = match.start()
		elif begin is not None:
			yield dump[begin:match.end()].rstrip(",")
			begin = None


def functions(path, root):
	"""The definitions of functions that are in this very file"""
	run = subprocess.run(["clang", *FLAGS, path], cwd=root, capture_output=True, text=True)
	if run.returncode != 0:
		raise Failed(f"clang cannot read {path}: {run.stderr[:400]}")
	file = None
	for chunk in chunks(run.stdout):
		# a file is named where it changes; who included it comes after the name "includedFrom"
		files = re.findall(r'"offset": \d+,\s*"file": "([^"]*)"', chunk)
		first = re.search(r'"loc": \{\s*(?:"spellingLoc": \{\s*)?"offset": \d+,\s*"file": "([^"]*)"', chunk)
		here = first.group(1) if first else file
		if files:
			file = files[-1]
		if here == path and '"kind": "FunctionDecl"' in chunk[:200] and '"CompoundStmt"' in chunk:
			yield json.loads(chunk)


class Finder:
	"""The places of one function"""

	def __init__(self, source, function):
		self.source = source
		self.places = {}
		self.returns_bool = function["type"]["qualType"].split("(")[0].strip() in ("bool", "_Bool")
		body = [node for node in function["inner"] if node.get("kind") == "CompoundStmt"]
		for node in body:
			self.statement(node)

	def span(self, node):
		"""Bytes of a node that begins outside of any macro; None for others"""
		begin, end = node["range"]["begin"], node["range"]["end"]
		if "offset" not in begin:
			return None
		if "offset" in end:
			return begin["offset"], end["offset"] + end["tokLen"]
		at = end.get("expansionLoc", {})
		if "offset" not in at:
			return None
		stop = at["offset"] + at["tokLen"]
		if re.match(rb"\s*\(", self.source[stop:]): # the arguments of a macro
			depth = 0
			for i in range(stop, len(self.source)):
				depth += {40: 1, 41: -1}.get(self.source[i], 0)
				if depth == 0 and self.source[i] == 41:
					return begin["offset"], i + 1
		return begin["offset"], stop

	def add(self, kind, node, variants):
		span = self.span(node)
		if span is not None and span not in self.places:
			self.places[span] = Place(kind, *span, variants)

	@staticmethod
	def bare(node):
		while node.get("kind") in ("ParenExpr", "ImplicitCastExpr", "ConstantExpr") and node.get("inner"):
			node = node["inner"][0]
		return node

	@staticmethod
	def logical(node):
		return node.get("kind") == "BinaryOperator" and node.get("opcode") in ("&&", "||")

	def condition(self, node):
		if node.get("kind") is None or self.bare(node).get("kind") == "IntegerLiteral":
			return
		self.add("cond", node, VARIANTS)

	def statement(self, node):
		"""A node that stands where a statement does"""
		kind = node.get("kind")
		if kind is None:
			return
		bare = node
		while bare.get("kind") in ("CStyleCastExpr", "ParenExpr") and bare.get("castKind", "ToVoid") == "ToVoid":
			bare = bare["inner"][0]
		if bare.get("kind") == "CallExpr":
			self.add("call", node, ("out",))
		elif bare.get("kind") == "CompoundAssignOperator" or \
				(bare.get("kind") == "BinaryOperator" and bare.get("opcode") == "=") or \
				(bare.get("kind") == "UnaryOperator" and bare.get("opcode") in ("++", "--")):
			self.add("set", node, ("out",))
		self.walk(node)

	def walk(self, node):
		kind, inner = node.get("kind"), node.get("inner", [])
		if kind == "CompoundStmt":
			for child in inner:
				self.statement(child)
		elif kind == "IfStmt":
			self.condition(inner[0])
			self.walk(inner[0])
			for child in inner[1:]:
				self.statement(child)
		elif kind == "WhileStmt":
			self.condition(inner[0])
			self.walk(inner[0])
			self.statement(inner[-1])
		elif kind == "DoStmt":
			self.statement(inner[0])
			self.condition(inner[1])
			self.walk(inner[1])
		elif kind == "ForStmt": # without what counts: it would only hang
			self.condition(inner[2])
			for child in inner[:4]:
				self.walk(child)
			self.statement(inner[4])
		elif kind in ("CaseStmt", "DefaultStmt", "LabelStmt"):
			for child in inner[1 if kind == "CaseStmt" else 0:]:
				self.statement(child)
		elif kind == "ConditionalOperator":
			self.condition(inner[0])
			for child in inner:
				self.walk(child)
		elif kind == "ReturnStmt" and self.returns_bool and inner:
			self.condition(inner[0])
			self.walk(inner[0])
		elif self.logical(node):
			# an operand forced the other way is the whole condition forced
			for child in inner:
				if not self.logical(self.bare(child)):
					self.add("cond", child, ("not", "true" if node["opcode"] == "&&" else "false"))
				self.walk(child)
		elif kind == "VarDecl" and node.get("storageClass") == "static" or kind == "StaticAssertDecl":
			return
		else:
			for child in inner:
				self.walk(child)


def find(path, root):
	"""The source of a file, its places, and a list of the mutants of each place"""
	with open(f"{root}/{path}", "rb") as file:
		source = file.read()
	places, seen = [], {}
	for function in functions(path, root):
		for place in sorted(Finder(source, function).places.values(), key=lambda p: (p.begin, -p.end)):
			text = " ".join(source[place.begin:place.end].decode(errors="replace").split())
			key = (function["name"], place.kind, text)
			nth = seen[key] = seen.get(key, -1) + 1
			line = source.count(b"\n", 0, place.begin) + 1
			mutants = [Mutant(path, function["name"], place.kind, text, nth, variant, line)
				for variant in place.variants]
			places.append((place, mutants))
	return source, places


def rewrite(source, places, number):
	"""The source with all mutants in it; they are numbered from `number`. Returns the next number as well."""
	before, after = {}, {}
	for place, mutants in places:
		for mutant in mutants:
			mutant.site = number
			mutant.number = number + (VARIANTS.index(mutant.variant) if place.kind == "cond" else 0)
		if place.kind == "cond":
			opening, closing = b"ol_mutant_if(%du, (" % number, b"))"
			number += 3
		else:
			opening, closing = b"(ol_mutant_without(%du) ? (void)0 : (void)(" % number, b"))"
			number += 1
		# what is longer begins before and ends after what is in it
		before.setdefault(place.begin, []).append((-place.end, opening))
		after.setdefault(place.end, []).append((-place.begin, closing))
	out, last = [INCLUDE, b"#line 1\n"], 0
	for at in sorted(set(before) | set(after)):
		out.append(source[last:at])
		out += [text for _, text in sorted(after.get(at, []))]
		out += [text for _, text in sorted(before.get(at, []))]
		last = at
	out.append(source[last:])
	return b"".join(out), number
