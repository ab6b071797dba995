// shared.c: how much static shared memory each kernel of an image uses.
//
// All `__shared__` variables of an image are in one thread-local segment, but a kernel is charged
// only for those its code reaches, as a device compiler counts them. The image keeps its
// relocations (--emit-relocs), and each function has its own section, so that no reference is
// resolved early: each symbol that a function or a table names is an edge, and a kernel is charged
// for all it reaches. Without relocations (some linkers) every kernel is charged for all.
#include "sim/api/api.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

typedef struct Node { // a function, an object or, after these, a shared variable
  uintptr_t begin, end;
  bool shared, reached;
} Node;

typedef struct Edge {
  int from, to; // from kAnyone: a table without a name
} Edge;

enum { kAnyone = -1, kAlignment = 16 };

typedef struct Graph {
  const char *image;
  const Elf64_Shdr *sections;
  int nsections;
  const Elf64_Sym *symbols;
  size_t nsymbols;
  const char *names;
  Node *nodes; // by begin: first the code and data, then the shared variables
  int ncode, nnodes;
  Edge *edges;
  int nedges;
} Graph;

// ---- nodes --------------------------------------------------------------------------------------

static int compare(const void *a, const void *b) {
  const Node *x = a, *y = b;
  if (x->shared != y->shared) return x->shared - y->shared;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static bool find_symbols(Graph *g) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)g->image;
  g->sections = (const Elf64_Shdr *)(g->image + head->e_shoff);
  g->nsections = head->e_shnum;
  for (int i = 0; i < g->nsections; i++) {
    if (g->sections[i].sh_type != SHT_SYMTAB) continue;
    g->symbols = (const Elf64_Sym *)(g->image + g->sections[i].sh_offset);
    g->nsymbols = g->sections[i].sh_size / sizeof *g->symbols;
    g->names = g->image + g->sections[g->sections[i].sh_link].sh_offset;
  }
  return g->symbols;
}

// A variable of class type has a guard variable: whether its (empty) constructor was called. It is
// not the kernel's: it is not charged, and its accesses are not checked.
static bool is_guard(const Graph *g, const Elf64_Sym *s) {
  return ELF64_ST_TYPE(s->st_info) == STT_TLS && !strncmp(g->names + s->st_name, "_ZGV", 4);
}

static bool note_guards(const Graph *g, CUmodule module) {
  int n = 0;
  for (size_t i = 0; i < g->nsymbols; i++) n += is_guard(g, &g->symbols[i]);
  if (!n) return true;
  module->guards = malloc((size_t)n * sizeof *module->guards);
  for (size_t i = 0; module->guards && i < g->nsymbols; i++)
    if (is_guard(g, &g->symbols[i]))
      module->guards[module->nguards++] = (uint32_t)g->symbols[i].st_value;
  return module->guards;
}

static bool make_nodes(Graph *g) {
  g->nodes = malloc((g->nsymbols + 1) * sizeof *g->nodes);
  for (size_t i = 0; g->nodes && i < g->nsymbols; i++) {
    const Elf64_Sym *s = &g->symbols[i];
    int type = ELF64_ST_TYPE(s->st_info);
    if (s->st_shndx == SHN_UNDEF || !s->st_size) continue;
    if (type != STT_FUNC && type != STT_OBJECT && type != STT_TLS) continue;
    if (is_guard(g, s)) continue;
    g->nodes[g->nnodes++] = (Node){s->st_value, s->st_value + s->st_size, type == STT_TLS, false};
    g->ncode += type != STT_TLS;
  }
  if (g->nodes) qsort(g->nodes, (size_t)g->nnodes, sizeof *g->nodes, compare);
  return g->nodes;
}

// The node that contains the address, between `low` and `high`, or -1.
static int node_at(const Graph *g, int low, int high, uintptr_t address) {
  int end = low;
  while (low < high) {
    int middle = (low + high) / 2;
    if (g->nodes[middle].begin > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low > end && address < g->nodes[low - 1].end ? low - 1 : -1;
}

// ---- edges --------------------------------------------------------------------------------------

// x86-64 counts from after the four bytes of the distance, nearly always the last ones.
static uintptr_t bias(const Elf64_Rela *r) {
#if defined(__x86_64__)
  switch (ELF64_R_TYPE(r->r_info)) {
  case R_X86_64_PC32:
  case R_X86_64_PLT32:
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX:
    return 4;
  }
#endif
  (void)r;
  return 0;
}

static void add_edge(Graph *g, const Elf64_Rela *r, bool code) {
  size_t index = ELF64_R_SYM(r->r_info);
  if (index >= g->nsymbols || g->symbols[index].st_shndx == SHN_UNDEF) return;
  const Elf64_Sym *s = &g->symbols[index];
  int from = node_at(g, 0, g->ncode, r->r_offset), to;
  if (ELF64_ST_TYPE(s->st_info) == STT_TLS) {
    to = node_at(g, g->ncode, g->nnodes, s->st_value);
  } else {
    uintptr_t address = s->st_value + (uintptr_t)r->r_addend + bias(r);
    to = node_at(g, 0, g->ncode, address);
    // A table without a name: its functions count for all; a jump table names places inside one.
    if (from < 0 && (code || to < 0 || g->nodes[to].begin != address)) return;
  }
  if (to >= 0 && to != from) g->edges[g->nedges++] = (Edge){from < 0 ? kAnyone : from, to};
}

// The section whose references these relocations are, when it is code or data of the image.
static const Elf64_Shdr *referring(const Graph *g, const Elf64_Shdr *relocations) {
  const char *names = g->image + g->sections[((const Elf64_Ehdr *)g->image)->e_shstrndx].sh_offset;
  if (relocations->sh_type != SHT_RELA || !relocations->sh_info ||
      relocations->sh_info >= (unsigned)g->nsections || relocations->sh_flags & SHF_ALLOC)
    return NULL;
  const Elf64_Shdr *of = &g->sections[relocations->sh_info];
  bool counts = of->sh_type == SHT_PROGBITS && of->sh_flags & SHF_ALLOC;
  return counts && strcmp(names + of->sh_name, ".eh_frame") != 0 ? of : NULL;
}

static bool make_edges(Graph *g) {
  size_t most = 0;
  for (int i = 0; i < g->nsections; i++)
    if (referring(g, &g->sections[i])) most += g->sections[i].sh_size / sizeof(Elf64_Rela);
  g->edges = malloc((most + 1) * sizeof *g->edges);
  for (int i = 0; g->edges && i < g->nsections; i++) {
    const Elf64_Shdr *of = referring(g, &g->sections[i]);
    const Elf64_Rela *r = (const Elf64_Rela *)(g->image + g->sections[i].sh_offset);
    for (size_t k = 0; of && k < g->sections[i].sh_size / sizeof *r; k++)
      add_edge(g, &r[k], of->sh_flags & SHF_EXECINSTR);
  }
  return g->edges;
}

// ---- reaching -----------------------------------------------------------------------------------

static void reach(Graph *g, const CusimKernel *kernel, uintptr_t base) {
  const uintptr_t roots[] = {(uintptr_t)kernel->symbol, (uintptr_t)kernel->enter,
                             (uintptr_t)kernel->loop};
  for (int i = 0; i < g->nnodes; i++) g->nodes[i].reached = false;
  for (int i = 0; i < 3; i++) {
    int at = roots[i] ? node_at(g, 0, g->ncode, roots[i] - base) : -1;
    if (at >= 0) g->nodes[at].reached = true;
  }
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < g->nedges; i++) {
      const Edge *e = &g->edges[i];
      if (g->nodes[e->to].reached || (e->from != kAnyone && !g->nodes[e->from].reached)) continue;
      g->nodes[e->to].reached = more = true;
    }
  }
}

// The reached variables side by side, each aligned as it is in the image, up to 16 bytes.
static size_t reached_bytes(const Graph *g, size_t all) {
  size_t bytes = 0;
  bool every = true;
  for (int i = g->ncode; i < g->nnodes; i++) {
    const Node *n = &g->nodes[i];
    size_t alignment = n->begin & -n->begin;
    if (!alignment || alignment > kAlignment) alignment = kAlignment;
    every &= n->reached;
    if (n->reached) bytes = ((bytes + alignment - 1) & -alignment) + (n->end - n->begin);
  }
  return every || bytes > all ? all : bytes;
}

// False: no memory.
bool shared_measure(CUmodule module, const char *image) {
  Graph g = {.image = image};
  bool ok = true;
  for (CUfunction f = module->functions; f; f = f->next) f->static_smem = module->tls_bytes;
  if (module->tls_bytes && module->functions && find_symbols(&g))
    ok = note_guards(&g, module) && make_nodes(&g) && make_edges(&g);
  for (CUfunction f = module->functions; ok && g.nedges && f; f = f->next) {
    reach(&g, f->kernel, module->base);
    f->static_smem = reached_bytes(&g, module->tls_bytes);
  }
  free(g.nodes);
  free(g.edges);
  return ok;
}
