-- nn_distances.lua: distances of tensors and of their rows, of the module `nn` (nn.lua).
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define, floats = tools.fail, tools.define, tools.axes_given.floats

-- The p-norm of x - y.
define("dist(x: tensor, y: tensor, p: number = 2)", "torch.dist", function(x, y, p)
  return nn.norm(x - y, p)
end)
-- The cosine of the angle between rows of x and y along an axis of the shape that both broadcast
-- to; norms are clamped to at least eps.
define("cosine_similarity(x: tensor, y: tensor, axis: any = 2, eps: number = 1e-8)",
       "F.cosine_similarity, nn.CosineSimilarity", function(x, y, axis, eps)
  x, y = nn.broadcast_tensors{x, y}
  axis = tools.axis_or_only("cosine_similarity: axis", axis, x)
  local function size(v) return op.max(nn.norm(v, 2, axis), eps) end
  return nn.sum(x * y, axis) / (size(x) * size(y))
end)
-- The p-norm of x - y + eps along the last axis.
define([[pairwise_distance(x: tensor, y: tensor, p: number = 2, eps: number = 1e-6,
       keep|keepdim: boolean = false)]],
       "F.pairwise_distance, nn.PairwiseDistance", function(x, y, p, eps, keep)
  return nn.norm(x - y + eps, p, -1, keep)
end)

-- ---- all pairs of rows --------------------------------------------------------------------------

-- Squared distances by one matrix product, x^2 + y^2 - 2 x y, clamped to >= 0.
local function squares_by_product(x, y)
  local function of_rows(v) return nn.sum(v * v, -1, true) end
  local both = op.matmul(x, nn.transpose(y)) * -2.0
  return op.max(both + of_rows(x) + nn.transpose(of_rows(y)), 0.0)
end

-- The p-norm of the difference of each row of x (..., P, M) and each row of y (..., R, M): (..., P,
-- R). For p = 2, a matrix product, x^2 + y^2 - 2 x y, is used if x or y has more than 25 rows, or
-- always with compute_mode = "use_mm_for_euclid_dist": faster, but distances below about a
-- thousandth of the rows' length lose nearly all digits; "donot_use_mm_for_euclid_dist" always
-- subtracts. The derivative at a distance of 0 is 0.
define([[cdist(x: tensor, y: tensor, p: number = 2, compute_mode:
       use_mm_for_euclid_dist_if_necessary/use_mm_for_euclid_dist/donot_use_mm_for_euclid_dist
       = use_mm_for_euclid_dist_if_necessary)]], "torch.cdist", function(x, y, p, mode)
  if p < 0 then fail("cdist: p = %g: expected at least 0", p) end
  floats("cdist", x)
  floats("cdist", y)
  local of_x, of_y = shape(x), shape(y)
  if #of_x < 2 or #of_y < 2 or of_x[#of_x] ~= of_y[#of_y] then
    fail("cdist: expected (..., P, M) and (..., R, M), got %s and %s", tostring(x), tostring(y))
  end
  local product = mode == "use_mm_for_euclid_dist"
  if mode == "use_mm_for_euclid_dist_if_necessary" then
    product = math.max(of_x[#of_x - 1], of_y[#of_y - 1]) > 25
  end
  if p == 2 and product then return tools.root(squares_by_product(x, y), 2) end
  return nn.norm(nn.unsqueeze(x, -2) - nn.unsqueeze(y, -3), p, -1)
end)

-- ---- pairs of rows of one tensor ----------------------------------------------------------------

-- The number of pairs in the last m rows of the triangle above a diagonal: 0 + ... + m.
local function triangle(m) return (m | 1) * op.floordiv(m + 1, 2) end

-- The indices of each pair among n, row by row: 0 1, 0 2, ..., 1 2, ... The triangular root is
-- computed in floats and corrected by at most one.
local function pair_members(n)
  local behind = n * (n - 1) // 2 - 1 - nn.index({n * (n - 1) // 2})
  local m = op.floor(op.sqrt(behind:to("f32") * 2.0 + 0.25) - 0.5):to("i32")
  m = op.where(op.gt(triangle(m), behind), m - 1, m)
  m = op.where(op.le(triangle(m + 1), behind), m + 1, m)
  return n - 2 - m, n - 1 - (behind - triangle(m))
end

-- g of each pair at both of its positions in an n x n matrix, 0 on the diagonal.
local function as_matrix(g, n)
  local row, column = nn.index({n, n}, 1), nn.index({n, n}, 2)
  local first, second = op.min(row, column), op.max(row, column)
  local place = shape(g)[1] - 1 - triangle(n - 2 - first) - (n - 1 - second)
  return op.where(op.eq(row, column), 0.0, op.gather(g, op.max(place, 0), {axis = 0}))
end

-- The distances of all pairs of rows of (N, M), each pair once: (N (N - 1) / 2).
define("pdist(x: tensor, p: number = 2)", "F.pdist, torch.pdist", function(x, p)
  local n = shape(x)[1]
  if #shape(x) ~= 2 then fail("pdist: expected (N, M), got %s", tostring(x)) end
  if n < 2 then return nn.zeros{0} end
  if p < 0 then fail("pdist: p = %g: expected at least 0", p) end
  floats("pdist", x)
  local first, second = pair_members(n)
  local function rows(ids) return op.gather(x, ids, {axis = 0}) end
  local y = nn.norm(rows(first) - rows(second), p, 2)
  return nn.custom_gradient(y, {x}, function(g)
    local apart = nn.unsqueeze(x, 2) - nn.unsqueeze(x, 1)
    local loss = nn.sum(nn.norm(apart, p, 3) * as_matrix(g, n))
    return nn.sum(nn.grad(loss, apart), 2)
  end)
end)
