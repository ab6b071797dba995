// test_mem.c: the arena planner: what is alive at the same time never overlaps, and the arena is
// close to its lower bound; launches in an order that needs little are in a right one.
#include "support.h"

static unsigned seed = 12345;
static int next(int below) { return (int)((seed = seed * 1664525u + 1013904223u) >> 8) % below; }

static void no_overlap(void **state) {
  (void)state;
  enum { kMost = 120 };
  for (int round = 0; round < 200; round++) {
    int64_t bytes[kMost], offset[kMost], total, bound;
    int first[kMost], last[kMost], n = 1 + next(kMost);
    for (int i = 0; i < n; i++) {
      bytes[i] = 1 + next(5000);
      first[i] = next(60);
      last[i] = first[i] + next(12);
    }
    mem_plan(n, bytes, first, last, offset, &total, &bound);
    assert_true(total >= bound);
    for (int i = 0; i < n; i++) {
      assert_int_equal(offset[i] % 256, 0);
      assert_true(offset[i] + bytes[i] <= total);
      for (int j = 0; j < i; j++) {
        bool together = first[i] <= last[j] && first[j] <= last[i];
        bool apart = offset[i] + bytes[i] <= offset[j] || offset[j] + bytes[j] <= offset[i];
        if (together && !apart) fail_msg("round %d: values %d and %d share memory", round, i, j);
      }
    }
  }
}

static void chain_is_exact(void **state) { // a -> b -> c ...: two alive at a time
  (void)state;
  enum { kSteps = 50 };
  int64_t bytes[kSteps], offset[kSteps], total, bound;
  int first[kSteps], last[kSteps];
  for (int i = 0; i < kSteps; i++) bytes[i] = 1024, first[i] = i, last[i] = i + 1;
  mem_plan(kSteps, bytes, first, last, offset, &total, &bound);
  assert_int_equal(bound, 2048);
  assert_int_equal(total, 2048);
}

static void models_near_bound(void **state) {
  (void)state;
  static const char *const models[] = {"resnet18", "resnet34", "lenet", "mlp"};
  static const char *const lowerings[] = {"fused", "unfused"};
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 2; j++) {
      Compiler c;
      char path[64];
      snprintf(path, sizeof path, "models/%s.lua", models[i]);
      compile_file(&c, path, lowerings[j], "fp16", NULL);
      Plan *p = plan_build(&c);
      double ratio = (double)p->arena_bytes / (double)(p->arena_bound ? p->arena_bound : 1);
      if (ratio > 1.05)
        fail_msg("%s %s: the arena is %.3f of its bound", models[i], lowerings[j], ratio);
      plan_free(p);
      compile_close(&c);
    }
}

static int launch_of(const Graph *g, const Node *n) { // that writes n; -1: none
  int count, found = -1;
  for (int i = 0; i < g->ngroups; i++) {
    Node *const *writes = group_writes(g->groups[i], &count);
    for (int j = 0; j < count; j++)
      if (writes[j] == n) found = i;
  }
  return found;
}

static void check_written(const Graph *g, const Node *n, int reader) { // or its parts
  int by = launch_of(g, n);
  if (by > reader)
    fail_msg("%s reads %s, which %s writes later", g->groups[reader]->name, n->name,
             g->groups[by]->name);
  for (int i = 0; n->placed && i < n->nin; i++) check_written(g, n->in[i], reader);
}

static void check_unchanged(const Graph *g, const Node *state, int reader) {
  const Group *k = g->groups[reader];
  for (int i = 0; i < g->nupdates; i++) {
    const Update *u = &g->updates[i];
    bool changed = u->in_place && u->state == state && u->entry == k->anchor->entry;
    if (changed && !k->fixed && launch_of(g, u->value) < reader)
      fail_msg("%s reads %s, which is changed before", k->name, state->name);
  }
}

// What a launch reads is there, and no state that it reads has changed.
static void launches_in_order(void **state) {
  (void)state;
  static const char *const models[] = {"squeezenet", "vit", "lenet", "mobilenet_v2"};
  for (int m = 0; m < 4; m++) {
    static Error err;
    Compiler c;
    char path[64];
    snprintf(path, sizeof path, "models/%s.lua", models[m]);
    Options o = {.model = path,
                 .lowering = "fused",
                 .dtype = "bf16",
                 .arch = arch_default(),
                 .recompute = m % 2 ? "all" : "none",
                 .trains = true};
    if (compile_model(&c, &o, &err)) fail_msg("%s", err.message);
    for (int i = 0; i < c.graph->ngroups; i++) {
      int count;
      Node *const *reads = group_reads(c.graph->groups[i], &count);
      assert_int_equal(c.graph->groups[i]->id, i);
      for (int j = 0; j < count; j++) {
        check_written(c.graph, reads[j], i);
        check_unchanged(c.graph, reads[j], i);
      }
    }
    compile_close(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_overlap),
      cmocka_unit_test(chain_is_exact),
      cmocka_unit_test(models_near_bound),
      cmocka_unit_test(launches_in_order),
  };
  return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
