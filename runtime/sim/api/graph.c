// graph.c: graphs, and their replay.
//
// A graph keeps its nodes in topological order; replay runs them one by one,
// with NNGEN_SIM_SEED in a random such order, so that a missing dependency shows.
#include "sim/api/api.h"

#include <stdlib.h>
#include <string.h>

// ---- graphs -------------------------------------------------------------------------------------

static bool is_graph(CUgraph graph) {
  return handle_is(HandleGraph, graph);
}
static bool is_exec(CUgraphExec exec) {
  return handle_is(HandleExec, exec);
}
static bool is_node(CUgraphNode node) {
  return handle_is(HandleNode, node);
}

CUgraph graph_make(void) {
  CUgraph graph = calloc(1, sizeof *graph);
  if (graph && !handle_add(HandleGraph, graph)) free(graph), graph = NULL;
  return graph;
}

void graph_free(CUgraph graph) {
  if (!graph) return;
  for (int i = 0; i < graph->nnodes; i++) {
    handle_drop(graph->nodes[i]);
    work_free(&graph->nodes[i]->work);
    free(graph->nodes[i]->deps);
    free(graph->nodes[i]);
  }
  free(graph->nodes);
  handle_drop(graph);
  free(graph);
}

CUresult graph_add(CUgraph graph, const CUgraphNode *deps, int ndeps, Work *work,
                   CUgraphNode *out) {
  CUgraphNode node = calloc(1, sizeof *node);
  CUgraphNode *nodes = realloc(graph->nodes, (size_t)(graph->nnodes + 1) * sizeof *nodes);
  if (nodes) graph->nodes = nodes;
  CUgraphNode *copy = malloc((size_t)(ndeps + 1) * sizeof *copy);
  if (!node || !nodes || !copy || !handle_add(HandleNode, node)) {
    free(node), free(copy), work_free(work);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (int i = 0; i < ndeps; i++) copy[i] = deps[i];
  *node = (struct CUgraphNode_st){*work, graph, copy, ndeps, graph->nnodes};
  graph->nodes[graph->nnodes++] = node;
  if (out) *out = node;
  return CUDA_SUCCESS;
}

static CUgraph duplicate(CUgraph from) {
  CUgraph to = graph_make();
  for (int i = 0; to && i < from->nnodes; i++) {
    Work work;
    CUgraphNode node, *deps = malloc((size_t)(from->nodes[i]->ndeps + 1) * sizeof *deps);
    bool ok = deps && work_copy(&work, &from->nodes[i]->work) == CUDA_SUCCESS;
    for (int d = 0; ok && d < from->nodes[i]->ndeps; d++)
      deps[d] = to->nodes[from->nodes[i]->deps[d]->index];
    if (!ok || graph_add(to, deps, from->nodes[i]->ndeps, &work, &node) != CUDA_SUCCESS)
      graph_free(to), to = NULL;
    free(deps);
  }
  return to;
}

// ---- kernels whose module was unloaded ----------------------------------------------------------

void graph_forget(const struct CUmod_st *module) {
  CUgraphNode node;
  for (size_t i = 0; (node = handle_next(HandleNode, &i));)
    if (node->work.kind == WorkKernel && node->work.launch->function &&
        node->work.launch->function->module == module)
      node->work.launch->function = NULL;
}

static CUresult check_kernels(CUgraph graph) {
  for (int i = 0; i < graph->nnodes; i++)
    if (graph->nodes[i]->work.kind == WorkKernel && !graph->nodes[i]->work.launch->function)
      return sim_refuse(CUDA_ERROR_INVALID_HANDLE,
                        "node %d of a graph is a kernel whose module was unloaded", i);
  return CUDA_SUCCESS;
}

// ---- building and looking -----------------------------------------------------------------------

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!graph || flags) return CUDA_ERROR_INVALID_VALUE;
  *graph = graph_make();
  return *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph graph) {
  if (!is_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  graph_free(graph);
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

static CUresult launch_from(const CUDA_KERNEL_NODE_PARAMS *p, Work *work) {
  unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ};
  unsigned block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};
  Launch *launch = calloc(1, sizeof *launch);
  if (!launch) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult r =
      launch_make(launch, p->func, grid, block, p->sharedMemBytes, p->kernelParams, p->extra);
  if (r != CUDA_SUCCESS) return free(launch), r;
  *work = (Work){WorkKernel, .launch = launch};
  return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS *params) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!node || !is_graph(graph) || !params || (count && !deps)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++)
    if (!is_node(deps[i]) || deps[i]->graph != graph) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  Work work;
  r = launch_from(params, &work);
  if (r == CUDA_SUCCESS) r = graph_add(graph, deps, (int)count, &work, node);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

// Both queries: a NULL array asks for the count; else *count is the capacity, then the number
// written.
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  if (!is_graph(graph) || !count) return CUDA_ERROR_INVALID_VALUE;
  size_t n = (size_t)graph->nnodes;
  for (size_t i = 0; nodes && i < *count; i++) nodes[i] = i < n ? graph->nodes[i] : NULL;
  if (!nodes || *count > n) *count = n;
  return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
  if (!is_graph(graph) || !count || !from != !to) return CUDA_ERROR_INVALID_VALUE;
  size_t n = 0;
  for (int i = 0; i < graph->nnodes; i++)
    for (int d = 0; d < graph->nodes[i]->ndeps; d++, n++)
      if (from && n < *count) from[n] = graph->nodes[i]->deps[d], to[n] = graph->nodes[i];
  if (!from || *count > n) *count = n;
  return CUDA_SUCCESS;
}

// The same with edge data, which is empty: no ports are modelled.
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *edges, size_t *count) {
  if (edges && !from) return CUDA_ERROR_INVALID_VALUE;
  CUresult r = cuGraphGetEdges(graph, from, to, count);
  if (r == CUDA_SUCCESS && edges) memset(edges, 0, *count * sizeof *edges);
  return r;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  static const CUgraphNodeType types[] = {
      [WorkNothing] = CU_GRAPH_NODE_TYPE_EMPTY, [WorkKernel] = CU_GRAPH_NODE_TYPE_KERNEL,
      [WorkCopy] = CU_GRAPH_NODE_TYPE_MEMCPY,   [WorkFill] = CU_GRAPH_NODE_TYPE_MEMSET,
      [WorkHost] = CU_GRAPH_NODE_TYPE_HOST,     [WorkEvent] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
      [WorkFree] = CU_GRAPH_NODE_TYPE_MEM_FREE, [WorkGraph] = CU_GRAPH_NODE_TYPE_EMPTY};
  if (!is_node(node) || !type) return CUDA_ERROR_INVALID_VALUE;
  *type = types[node->work.kind];
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p) {
  if (!is_node(node) || !p || node->work.kind != WorkKernel) return CUDA_ERROR_INVALID_VALUE;
  const Launch *l = node->work.launch;
  *p = (CUDA_KERNEL_NODE_PARAMS){l->function, l->grid[0],  l->grid[1],  l->grid[2],
                                 l->block[0], l->block[1], l->block[2], l->smem,
                                 l->params,   NULL,        NULL,        NULL};
  return CUDA_SUCCESS;
}

// ---- executable graphs --------------------------------------------------------------------------

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!out || !is_graph(graph) || flags > 15) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExec exec = calloc(1, sizeof *exec);
  if (!exec) return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&sim_lock);
  r = check_kernels(graph);
  if (r == CUDA_SUCCESS) exec->graph = duplicate(graph);
  if (r == CUDA_SUCCESS && (!exec->graph || !handle_add(HandleExec, exec)))
    r = CUDA_ERROR_OUT_OF_MEMORY;
  if (r == CUDA_SUCCESS)
    *out = exec;
  else
    graph_free(exec->graph), free(exec);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

static void exec_free(CUgraphExec exec) {
  graph_free(exec->graph);
  free(exec);
}

void graph_exec_release(CUgraphExec exec) {
  if (--exec->running == 0 && exec->destroyed) exec_free(exec);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  if (!is_exec(exec)) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  handle_drop(exec);
  exec->destroyed = true;
  if (!exec->running) exec_free(exec);
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

static bool ready(CUgraphNode node, const bool *done) {
  for (int d = 0; d < node->ndeps; d++)
    if (!done[node->deps[d]->index]) return false;
  return true;
}

// Runs the nodes in a random order that respects the dependencies.
static void run_shuffled(CUgraph graph, uint64_t seed) {
  int n = graph->nnodes;
  bool *done = calloc((size_t)n + 1, sizeof *done);
  for (int ran = 0; done && ran < n; ran++) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    int i = (int)((seed >> 33) % (unsigned)n);
    while (done[i] || !ready(graph->nodes[i], done)) i = (i + 1) % n;
    work_run(&graph->nodes[i]->work);
    done[i] = true;
  }
  free(done);
}

void graph_run(CUgraphExec exec) {
  uint64_t seed = sim_settings()->seed;
  if (seed) {
    run_shuffled(exec->graph, seed);
    return;
  }
  for (int i = 0; i < exec->graph->nnodes; i++) work_run(&exec->graph->nodes[i]->work);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!is_exec(exec)) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  r = check_kernels(exec->graph);
  if (r == CUDA_SUCCESS) {
    Work work = {WorkGraph, .exec = exec};
    exec->running++;
    r = stream_submit(stream, &work);
  }
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  CUresult r = sim_context_check();
  CUstream found;
  pthread_mutex_lock(&sim_lock);
  if (r == CUDA_SUCCESS) r = stream_find(stream, &found);
  pthread_mutex_unlock(&sim_lock);
  return r == CUDA_SUCCESS && !is_exec(exec) ? CUDA_ERROR_INVALID_VALUE : r;
}

// The first node where the two graphs differ in shape, or NULL.
static CUgraphNode difference(CUgraph old, CUgraph new, CUgraphExecUpdateResult *why) {
  *why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (old->nnodes != new->nnodes) return new->nnodes ? new->nodes[0] : old->nodes[0];
  for (int i = 0; i < new->nnodes; i++) {
    CUgraphNode a = old->nodes[i], b = new->nodes[i];
    bool same = a->ndeps == b->ndeps;
    for (int d = 0; same && d < a->ndeps; d++) same = a->deps[d]->index == b->deps[d]->index;
    if (!same) return b;
    if (a->work.kind != b->work.kind) return *why = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, b;
  }
  *why = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return NULL;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!is_exec(exec) || !is_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResult why;
  CUgraphNode node = difference(exec->graph, graph, &why);
  if (info) *info = (CUgraphExecUpdateResultInfo){why, node, NULL};
  if (why != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  pthread_mutex_lock(&sim_lock);
  if (exec->running) stream_drain_all(); // launches already made keep the old parameters
  r = check_kernels(graph);
  CUgraph copy = r == CUDA_SUCCESS ? duplicate(graph) : NULL;
  if (r == CUDA_SUCCESS && !copy) r = CUDA_ERROR_OUT_OF_MEMORY;
  if (copy) graph_free(exec->graph), exec->graph = copy;
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *params) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!is_exec(exec) || !is_node(node) || !params || node->index >= exec->graph->nnodes ||
      exec->graph->nodes[node->index]->work.kind != WorkKernel)
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  if (exec->running) stream_drain_all();
  Work work;
  r = launch_from(params, &work);
  CUgraphNode mine = exec->graph->nodes[node->index];
  if (r == CUDA_SUCCESS) work_free(&mine->work), mine->work = work;
  pthread_mutex_unlock(&sim_lock);
  return r;
}
