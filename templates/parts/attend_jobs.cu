//@ -- attend_jobs.cu: persistent attend.cu with producer warps; a job is a tile of queries.
//@ -- Loads of the next job overlap with the stores of this one. Groups of consumer warps wait
//@ -- for tiles, not for each other: the MMAs of one overlap with the exponentials of another.
//@ local q, keys, v = k.operands[1], k.operands[2], k.operands[3]

  auto go_to = [&](int job) {
    batch = job / kTilesM;
    m0 = $(k.descends and "(kTilesM - 1 - job % kTilesM)" or "job % kTilesM") * kTileM;
  };
//@ local of, is_plain = "", ""
//@ if k.masking then
//@ of, is_plain = "live, ", ", is_plain"
  auto next = [](const unsigned *live, int tile) { return next_tile(live, tile, kTilesKeys); };
//@ else
  auto next = [](int tile) { return tile; };
//@ end
  if (threadIdx.x == 0) {
    smem.jobs.init(1, kThreads / kWarp);
    smem.keys.init(1, kThreads / kWarp);
    smem.values.init(1, kThreads / kWarp);
    nn_mbar_init_fence();
  }
  nn_sync();
  RingPlace<kPlaces> jobs;
  int turn = 0;  // alternates with each job
  RingPlace<2> keys, values;
  if (threadIdx.x >= kThreads) {
    nn_registers_give<kLoaderRegisters>();
    const int thread = threadIdx.x - kThreads;
//@ if not k.masking then
    if (thread) return;
//@ end
//@ if q.box then
    auto load_queries = [&](int m) {
$(q.decode)
      int at[] = {0$(q.places)};
      load_boxes<T, kDepth, kTileM>(smem.q[jobs.at], $(q.box), at, &smem.jobs.filled[jobs.at]);
    };
//@ end
    auto load_keys = [&](int key) {
$(keys.decode)
      int at[] = {0$(keys.places)};
      load_boxes<T, $(keys.depth), kTileKeys>(
          smem.k[keys.at], $(keys.box), at, &smem.keys.filled[keys.at]);
    };
    auto load_values = [&](int key) {
$(v.decode)
      int at[] = {0$(v.places)};
      load_boxes<T, $(v.depth), kTileKeys>(
          smem.v[values.at], $(v.box), at, &smem.values.filled[values.at]);
    };
    for (int job = blockIdx.x, ahead; job < kJobs; job = ahead) {
      go_to(job);
      jobs.await_left(smem.jobs);
//@ if k.masking then
      unsigned *const live = smem.live[turn], *const plain = smem.plain[turn];
//@ part("parts/masking.cu")
      if (thread == 0) smem.ahead[turn] = next_job<kJobs>(own_taken);
      nn_bar_sync(1, kLoaders);
      ahead = smem.ahead[turn];
      if (thread == 0) {
//@ else
      ahead = next_job<kJobs>(own_taken);
      {
//@ end
        smem.job[jobs.at] = job;
//@ if q.box then
        load_queries(m0);
//@ else
        nn_mbar_arrive(&smem.jobs.filled[jobs.at]);
//@ end
        int tile = next($(of)0);
        for (; tile < kTilesKeys; tile = next($(of)tile + 1)) {
          keys.await_left(smem.keys);
          load_keys(tile * kTileKeys), keys.step();
          values.await_left(smem.values);
          load_values(tile * kTileKeys), values.step();
        }
      }
      jobs.step(), turn ^= 1;
    }
    jobs.await_left(smem.jobs);
    if (thread == 0) smem.job[jobs.at] = kJobs, jobs.fill(smem.jobs);
    return;
  }
  nn_registers_take<kRegisters>();
//@ part("parts/factor.cu")
//@ part("parts/tails.cu")
  // With one query buffer, queries held in registers free it at once.
  constexpr bool kLeavesAtOnce = kPlaces == 1 && Warp::Queries::kHolds;
  for (;; turn ^= 1) {
    jobs.await_filled(smem.jobs);
    const int job = smem.job[jobs.at];
    if (job >= kJobs) return;
    go_to(job);
    char *const queries = smem.q[jobs.at];
//@ if k.masking then
    const unsigned *const live = smem.live[turn], *const plain = smem.plain[turn];
//@ end
//@ if not q.box then
    nn_bar_sync(2, kThreads);  // all have read the queries of the job before
//@ if q.computed then
    compute_rows<T, kDepth, kM, kTileM, kThreads, $(q.sharing), Unit::kPanels>(queries, m0, q_row);
//@ else
    load_rows<MapQ, kTileM, kThreads, Unit::kPanels>(queries, $(q.pointer), m0, batch);
    nn_cp_async_commit();
    nn_cp_async_wait<0>();
//@ end
    Unit::publish();
    nn_bar_sync(2, kThreads);
//@ end
    Warp warp(queries, row0);
    if (kLeavesAtOnce) jobs.leave(smem.jobs);
    int tile = next($(of)0);
    if (tile < kTilesKeys) {
      // P x V of one tile overlaps with the exponentials of the next tile's scores.
      Warp::Part part;
      Warp::Weights weights;
      int after;
//@ if k.masking then
      bool is_plain;
//@ end
      // Called while MMAs run: finds the next live tile, and whether this one is unmasked.
      auto look_ahead = [&] {
        after = next($(of)tile + 1);
//@ if k.masking then
        is_plain = plain[tile / kWarp] >> tile % kWarp & 1;
//@ end
      };
      auto multiply = [&] {
        keys.await_filled(smem.keys);
        warp.multiply(part.scores, smem.k[keys.at]);
      };
      auto weigh_tile = [&] {
        values.await_filled(smem.values);
        warp.weigh(weights, smem.v[values.at]);
      };
      auto compute = [&] {
        keys.leave(smem.keys);
        rebase(warp, tile, 0, part$(is_plain));
        warp.move_sums(part, kScale * kLog2e);
        power(warp, tile, 0, part);
        // NOTE: ptxas sinks exponentials below a wait, but not below a branch that needs them.
        if (warp.must_follow(part)) {
          Unit::await<0>(static_cast<Warp::Sums &>(warp));
          warp.move_outs(part);
        } else {
          Unit::await<0>(static_cast<Warp::Sums &>(warp));
        }
        warp.pack(part.scores, weights);
      };
      multiply();
      look_ahead();
      Unit::await<0>(part.scores);
      compute();
#pragma unroll 1
      while (after < kTilesKeys) {
        tile = after;
        multiply();
        weigh_tile();
        look_ahead();
        Unit::await<1>(part.scores);
        compute();
        values.leave(smem.values);
      }
      weigh_tile();
      Unit::await<0>(static_cast<Warp::Sums &>(warp));
      values.leave(smem.values);
    }
    Unit::keep(warp);
    if (!kLeavesAtOnce) jobs.leave(smem.jobs);
    warp.settle(kScale * kLog2e);
    warp.finish(kScale, [&](int r, const ScoreRow &state, bool first) {
      return factor(m0 + row0 + r, state, first);
    });
    // Outputs are staged in the warp's part of shared memory so that each lane stores neighbours
    // along n. The lanes have synchronised (`leave`) since they read those of the last job.
    warp.template stage<kStaged>(smem.out, row0);
    nn_syncwarp();
    if (m0 + row0 < kM)
      each_output<kM, kN, kWarpM, kStaged, kLanes, kWarp>(
          smem.out + row0 * kStaged, m0 + row0, 0, kM, epilogue, threadIdx.x % kWarp);
  }
