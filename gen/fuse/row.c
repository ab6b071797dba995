// row.c: row kernels: reductions of the same elements, with the maps before, between and after
// them. A kernel goes over its rows in sweeps: each accumulates the reductions that depend on those
// of earlier sweeps, and computes the maps between.
#include "fuse.h"

#include <stdlib.h>
#include <string.h>

static bool is_full(const Group *g, const Node *n) {
  return type_same_shape(&n->type, &g->anchor->in[0]->type);
}

int row_sweeps(const Group *g) {
  int count = 0;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    n->sweep = 0;
    for (int j = 0; j < n->nin; j++) {
      if (n->in[j]->group != g) continue;
      int after = n->in[j]->sweep + (n->in[j]->op->cls == OpReduce);
      if (after > n->sweep) n->sweep = after;
    }
    if (n->sweep + 1 > count) count = n->sweep + 1;
  }
  return count;
}

bool row_needed_later(const Group *g, const Node *n, int sweep) {
  for (int i = 0; i < g->nnodes; i++) {
    const Node *user = g->nodes[i];
    for (int j = 0; j < user->nin; j++)
      if (user->in[j] == n && user->sweep > sweep && user->op->cls != OpMove &&
          (is_full(g, user) || user->op->cls == OpReduce))
        return true; // a move reads other elements; it waits itself
  }
  return false;
}

// Does a node of this sweep or an earlier one read n?
static bool read_before(const Group *g, const Node *n, int sweep) {
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; j < g->nodes[i]->nin; j++)
      if (g->nodes[i]->in[j] == n && g->nodes[i]->sweep <= sweep) return true;
  return false;
}

bool row_waits(const Group *g, const Node *n, int sweep) {
  bool at_hand = n->group == g ? n->sweep <= sweep : read_before(g, n, sweep);
  return at_hand && is_full(g, n) && n->op->cls != OpReduce && row_needed_later(g, n, sweep);
}

// ---- rows and their readers --------------------------------------------------------------------

// Does the group reduce rows that one block can hold, contiguous or strided?
static bool has_rows(const Group *k) {
  if (!k->tm->fusion->sweeps) return false;
  return k->tm->fusion->elements || fuse_fits_across(k->anchor);
}

bool row_holds_states(const Group *a, const Group *b) {
  enum { kMostAcross = 20 }; // words per thread of 512: 40 of 48 KB
  const Node *n = a->anchor;
  bool across = n->op->cls == OpReduce && !type_innermost_in(&n->in[0]->type, n->attr.axes);
  return !across || state_words(a) + state_words(b) <= kMostAcross;
}

// The last value of a group of maps, before reshapes of it.
static const Node *last_made(const Group *k) {
  const Node *n = k->anchor;
  while (n->op->cls == OpMove && n->nin == 1 && n->in[0]->group == k && view_same_memory(n))
    n = n->in[0];
  return n;
}

static const Type *elements_of(const Group *k) {
  if (k->tm->fusion->sweeps) return &k->anchor->in[0]->type;
  return k->tm->fusion->elements ? &last_made(k)->type : NULL;
}

static bool read_in(const Node *n, const Group *k) {
  for (int i = 0; i < k->nnodes; i++)
    for (int j = 0; j < k->nodes[i]->nin; j++)
      if (k->nodes[i]->in[j] == n) return true;
  return false;
}

// Does the reader use results of the row group at other positions than its own? For example
// transposed or reversed values, which belong to other rows even if the shape is the same, or a
// concat, which shifts them.
static bool moves_results(const Group *rows, const Group *reader) {
  bool *made = base_alloc((size_t)reader->nnodes, sizeof *made), moves = false;
  for (int i = 0; i < reader->nnodes && !moves; i++) {
    const Node *n = reader->nodes[i];
    for (int j = 0; j < n->nin; j++) {
      moves = moves || legal_moved(n->in[j], rows);
      made[i] = made[i] || n->in[j]->group == rows;
      for (int k = 0; k < i; k++) made[i] = made[i] || (made[k] && reader->nodes[k] == n->in[j]);
    }
    if (!made[i] || n->op->cls != OpMove) continue;
    bool stored = !read_in(n, reader) && view_same_memory(n);
    moves = moves || n->op->form > MoveSlice || (!legal_keeps_places(n) && !stored);
  }
  free(made);
  return moves;
}

// Does the reader recompute something late from a result that the row group computes early?
static bool is_made_early(const Group *rows, const Group *reader) {
  for (int i = 0; i < reader->nnodes; i++)
    for (int j = 0; reader->nodes[i]->again && j < reader->nodes[i]->nin; j++)
      if (reader->nodes[i]->in[j]->group == rows && !reader->nodes[i]->in[j]->again) return true;
  return false;
}

// Is a map of the group computed in the shape of a reshape of the group's last value?
static bool computes_seen(const Group *k) {
  bool computes = false;
  for (int i = 0; i < k->nnodes; i++)
    computes = computes || (k->nodes[i]->op->cls == OpMap &&
                            type_same_shape(&k->nodes[i]->type, &k->anchor->type));
  return computes && !type_same_shape(&last_made(k)->type, &k->anchor->type);
}

// Does it reduce values read at other positions, such as the taps of a filter? With one block per
// row, the loads would be serialised.
static bool reduces_moved(const Group *reader) {
  bool moved = false;
  for (int i = 0; i < reader->nnodes; i++) {
    const Node *n = reader->nodes[i];
    bool taps = n->op->cls == OpMove && n->nin == 1 && !op_gathers(n->op);
    moved =
        moved || (taps && !view_same_memory(n) && type_same_shape(&n->type, elements_of(reader)));
  }
  return moved && reader->tm->fusion->sweeps;
}

// Does it write a part of a concat that is in several pieces and a reshape of what is computed?
static bool parts_apart(const Group *reader) {
  bool apart = false;
  for (int i = 0; i < reader->nnodes; i++) {
    const Node *n = reader->nodes[i];
    bool seen = n->parent && n->op->cls == OpMove && n->in[0]->group == reader;
    apart = apart || (seen && !view_whole_part(n));
  }
  return apart;
}

// If the reader only moves elements of rows to other positions: the value they belong to, else
// NULL.
static const Node *led_by(const Group *rows, const Group *reader) {
  for (int i = 0; i < reader->nnodes; i++) {
    const Node *n = reader->nodes[i], *from = i ? reader->nodes[i - 1] : NULL;
    if (!group_leads(n) || (from ? n->in[0] != from : n->in[0]->group != rows)) return NULL;
  }
  const Node *made = reader->nodes[0]->in[0];
  while (group_leads(made) && made->in[0]->group == rows) made = made->in[0];
  return type_same_shape(&made->type, elements_of(rows)) ? made : NULL;
}

// Do neighbours in a row remain neighbours after the moves?
static const char *leads_runs(const Group *rows, const Group *reader, const Node *made) {
  const Node *move[kMostNodes];
  int count = 0;
  for (const Node *n = reader->anchor; n != made; n = n->in[0]) move[count++] = n;
  const Type *x = elements_of(rows);
  int inner = x->order[x->rank - 1];
  Lane lane = {inner, x->dim[inner]};
  while (count--)
    if (view_reorders(move[count])) lane = lane_follow(lane, move[count]);
  return legal_stores_runs(rows, lane, &reader->anchor->type)
             ? NULL
             : "the move would make the row kernel's stores uncoalesced";
}

// Why a row group and a reader of its results over the same elements cannot be one kernel, or NULL.
static const char *legal_behind_rows(const Group *rows, const Group *reader) {
  const Type *x = elements_of(rows), *y = elements_of(reader);
  if (!y) return "it reads elements computed by several blocks of that kernel";
  if (rows->fixed != reader->fixed) return "one of them is computed once, by init";
  if (rows->anchor->entry != reader->anchor->entry) return "they belong to different entries";
  const char *large = legal_size(rows, reader);
  if (large) return large;
  if (!fuse_same_call(rows, reader))
    return "lowering is unfused, and they belong to different layers";
  const Node *led = led_by(rows, reader);
  if (led) return leads_runs(rows, reader, led);
  bool reduces = reader->tm->fusion->sweeps;
  if (reduces && !has_rows(reader)) return "one block cannot hold the rows it reduces";
  if (reduces && reader->anchor->attr.axes != rows->anchor->attr.axes)
    return "it reduces different axes";
  if (reduces_moved(reader)) return "it reduces values at other positions";
  if (reduces && !row_holds_states(rows, reader))
    return "their accumulators do not fit in shared memory together";
  if (!type_same_shape(x, y) || (!reduces && computes_seen(reader)))
    return "its shape differs from that of the rows";
  // A copy to another memory order is strided on one of its two sides in any case.
  bool turns = !reduces && last_made(reader)->op->flags & FlagCopy;
  if (!turns && memcmp(x->order, y->order, sizeof x->order))
    return "its memory order differs from that of the rows";
  if (parts_apart(reader)) return "it writes a part of a concat that is not contiguous";
  if (moves_results(rows, reader)) return "it reads that kernel's result at other positions";
  return is_made_early(rows, reader) ? "it is recomputed late, that kernel runs early"
                                     : NULL;
}

// ---- other dependences of a reader --------------------------------------------------------------

static int place_in(const Group *k, const Node *n) {
  int i = 0;
  while (k->nodes[i] != n) i++;
  return i;
}

// Marks the nodes of k that depend on the rows.
static void find_waiting(const Group *rows, const Group *k, bool *waits) {
  for (int i = 0; i < k->nnodes; i++)
    for (int j = 0; j < k->nodes[i]->nin && !waits[i]; j++) {
      const Node *in = k->nodes[i]->in[j];
      if (in->group == k)
        waits[i] = waits[place_in(k, in)];
      else
        waits[i] = in->placed || (in->group && fuse_reaches(in->group, rows));
    }
}

// Marks the nodes of k that the reader needs.
static void find_read(const Group *k, const Group *reader, bool *read) {
  for (int i = k->nnodes - 1; i >= 0; i--) {
    const Node *n = k->nodes[i];
    read[i] = read[i] || read_in(n, reader);
    for (int j = 0; j < n->nin && read[i]; j++)
      if (n->in[j]->group == k) read[place_in(k, n->in[j])] = true;
  }
}

// Have all nodes marked `own` as many elements as the last map among them?
static bool makes_alike(const Group *k, const bool *own) {
  const Type *made = NULL;
  for (int i = k->nnodes - 1; i >= 0 && !made; i--)
    if (own[i] && k->nodes[i]->op->cls == OpMap) made = &k->nodes[i]->type;
  bool alike = made != NULL;
  for (int i = 0; i < k->nnodes && alike; i++)
    alike = !own[i] || type_count(&k->nodes[i]->type) == type_count(made);
  return alike;
}

// A group of maps that depends on the rows may also compute a value for their reader that does not,
// for example if a loss and its gradient both depend on the targets. Marks those nodes; false if
// they depend on the rows.
static bool find_part(const Group *rows, const Group *k, const Group *reader, bool *own) {
  bool waits[kMostNodes] = {false};
  bool some = false, all = true, free = k->tm->fusion->maps && k->nnodes <= kMostNodes;
  if (!free) return false;
  memset(own, 0, sizeof *own * kMostNodes);
  find_waiting(rows, k, waits);
  find_read(k, reader, own);
  for (int i = 0; i < k->nnodes; i++) {
    free = free && !(own[i] && waits[i]);
    some = some || own[i], all = all && own[i];
  }
  return free && some && !all && makes_alike(k, own);
}

// Rows and reader can be one kernel only if the reader depends on no kernel between them: splits
// groups of maps so that it does not. False if one is left between, or if the reader is too small
// for an additional kernel to pay.
static bool part_others(Graph *g, Group *rows, Group *reader) {
  Group *others[kMostNodes];
  bool own[kMostNodes];
  int count = 0;
  if (!fuse_makes_cycle(rows, reader)) return true;
  if (gain_is_small(g->c->options.arch, reader)) return false;
  for (int i = 0; i < reader->nnodes; i++)
    for (int j = 0; j < reader->nodes[i]->nin; j++) {
      Group *k = reader->nodes[i]->in[j]->group;
      bool known = !k || k == rows || k == reader;
      for (int m = 0; m < count; m++) known = known || others[m] == k;
      if (known || !fuse_reaches(k, rows)) continue;
      if (count == kMostNodes || !find_part(rows, k, reader, own)) return false;
      others[count++] = k;
    }
  for (int m = 0; m < count; m++)
    if (find_part(rows, others[m], reader, own)) fuse_part(g, others[m], own);
  return !fuse_makes_cycle(rows, reader);
}

static const Template *row_template(const Graph *g) {
  const Template *tm = g->c->templates;
  while (tm->fusion != &fusion_row) tm++;
  return tm;
}

// Replaces the earlier reason: this one says more.
static void note_apart(const Node *made, Node *reader, const char *reason) {
  for (int i = 0; i < reader->nin && reader->apart; i++)
    if (reader->in[i] == made) reader->apart[i] = reason;
}

void row_join_readers(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    int count;
    Node **readers = fuse_readers(g, g->nodes[i], &count);
    for (int j = 0; j < count; j++) {
      Group *rows = g->nodes[i]->group, *reader = readers[j]->group;
      if (!rows || !reader || rows == reader || !has_rows(rows)) continue;
      const char *reason = legal_behind_rows(rows, reader);
      if (!reason && !part_others(g, rows, reader))
        reason = "fusing would create a dependence cycle";
      note_apart(g->nodes[i], readers[j], reason);
      if (reason) continue;
      fuse_absorb(g, rows, reader);
      rows->tm = row_template(g);
    }
  }
}
