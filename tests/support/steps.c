/* SPDX-License-Identifier: BSD-3-Clause */

/* steps.c -- counts the instructions that this thread executes */

#include "support/steps.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <x86intrin.h>

enum {
	STACK_BYTES = 1 << 16, /* a frame holds all vector registers */
	NOTES = 1 << 20, /* addresses, at most; a power of two */
	RECENT = 1 << 16, /* instructions between start and stop that are noted */
	FUNCTIONS = 4096
};

#define TRAP_FLAG    0x100ull
#define SYSCALL_CODE 0x050f /* 0f 05 */

static struct steps *_Atomic target; /* set by this thread, read by its own handler */
static uint64_t
	own; /* instructions between the flag's setting and its end, with nothing in between */
static uint8_t *stack;
static bool noting;
static uintptr_t recent[RECENT];
static size_t recent_count;
static struct note {
	uintptr_t at;
	uint64_t count;
} * notes;

static void note_add(uintptr_t at)
{
	size_t i = (at * 0x9e3779b97f4a7c15ull) >> 44;

	while (notes[i].at != 0 && notes[i].at != at)
		i = (i + 1) % NOTES;
	notes[i].at = at;
	notes[i].count++;
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;
	const uintptr_t next = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	uint16_t code;

	(void)sig;
	(void)info;
	if (target == NULL)
		return;
	target->instructions++;
	memcpy(&code, (const void *)next, sizeof(code));
	target->calls += code == SYSCALL_CODE;
	if (noting && recent_count < RECENT)
		recent[recent_count++] = next;
}

void steps_start(struct steps *into)
{
	target = into;
	recent_count = 0;
	__writeeflags(__readeflags() | TRAP_FLAG);
}

void steps_stop(void)
{
	__writeeflags(__readeflags() & ~TRAP_FLAG);
	target->instructions -= own;
	target = NULL;
}

bool steps_open(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct steps empty = { 0 };
	stack_t alternate = { .ss_size = STACK_BYTES };

	stack = malloc(STACK_BYTES);
	alternate.ss_sp = stack;
	if (stack == NULL || sigaltstack(&alternate, NULL) != 0 ||
	    sigaction(SIGTRAP, &action, NULL) != 0)
		return false;
	steps_start(&empty);
	steps_stop();
	own = empty.instructions;
	return own > 0;
}

void steps_note(bool on)
{
	if (notes == NULL)
		notes = calloc(NOTES, sizeof(*notes));
	noting = on && notes != NULL;
}

void steps_keep(void)
{
	for (size_t i = 0; i < recent_count; i++)
		note_add(recent[i]);
	recent_count = 0;
}

/* The program's own symbols: its file, mapped, and where the program lies */
struct image {
	const uint8_t *file;
	const Elf64_Sym *symbols;
	const char *names;
	size_t count;
	uintptr_t base;
};

static int base_find(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct image *image = arg;

	(void)bytes;
	image->base = info->dlpi_addr; /* the program is the first */
	return 1;
}

static void image_open(struct image *image)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const Elf64_Shdr *sections;
	const Elf64_Ehdr *head;
	struct stat stat;
	void *file;

	if (fd < 0 || fstat(fd, &stat) != 0)
		return;
	file = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return;
	image->file = file;
	head = file;
	sections = (const Elf64_Shdr *)(const void *)(image->file + head->e_shoff);
	for (unsigned i = 0; i < head->e_shnum; i++) {
		if (sections[i].sh_type != SHT_SYMTAB)
			continue;
		image->symbols =
			(const Elf64_Sym *)(const void *)(image->file + sections[i].sh_offset);
		image->count = sections[i].sh_size / sizeof(Elf64_Sym);
		image->names =
			(const char *)(image->file + sections[sections[i].sh_link].sh_offset);
	}
	dl_iterate_phdr(base_find, image);
}

static const char *function_of(const struct image *image, uintptr_t at)
{
	for (size_t i = 0; i < image->count; i++) {
		const Elf64_Sym *symbol = &image->symbols[i];

		if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
		    at - image->base - symbol->st_value < symbol->st_size)
			return image->names + symbol->st_name;
	}
	return "(other libraries)";
}

struct function {
	const char *name;
	uint64_t count;
};

static int more_first(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return (x->count < y->count) - (x->count > y->count);
}

void steps_print(FILE *out, unsigned count, uint64_t by)
{
	static struct function functions[FUNCTIONS];
	struct image image = { 0 };
	size_t found = 0;

	image_open(&image);
	for (size_t i = 0; notes != NULL && i < NOTES; i++) {
		const char *name;
		size_t k = 0;

		if (notes[i].count == 0)
			continue;
		name = function_of(&image, notes[i].at);
		while (k < found && strcmp(functions[k].name, name) != 0)
			k++;
		if (k == FUNCTIONS)
			continue;
		found += k == found;
		functions[k].name = name;
		functions[k].count += notes[i].count;
		notes[i] = (struct note){ 0 };
	}
	qsort(functions, found, sizeof(functions[0]), more_first);
	for (size_t i = 0; i < found && i < count; i++)
		fprintf(out, "#   %8.1f  %s\n", (double)functions[i].count / (double)by,
			functions[i].name);
	memset(functions, 0, sizeof(functions));
}

#else

bool steps_open(void)
{
	return false;
}

void steps_start(struct steps *into)
{
	(void)into;
}

void steps_stop(void)
{
}

void steps_note(bool on)
{
	(void)on;
}

void steps_keep(void)
{
}

void steps_print(FILE *out, unsigned count, uint64_t by)
{
	(void)out;
	(void)count;
	(void)by;
}

#endif
