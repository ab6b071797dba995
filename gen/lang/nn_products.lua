-- nn_products.lua: sums of products, of the module `nn` (nn.lua): matrix products of every rank,
-- and einsum.
local core, nn = ...
local op, shape, tools = core.op, core.shape, core.tools
local fail, define = tools.fail, tools.define

-- ---- matrices ---------------------------------------------------------------------------------

-- Floats: the op; integers are multiplied and summed exactly, in i32.
local function product(a, b)
  if tools.is_float(a) or tools.is_float(b) then return op.matmul(a, b) end
  local p, q = shape(a), shape(b)
  if #p < 2 or #q < 2 or p[#p] ~= q[#q - 1] then
    fail("matmul: inner sizes differ: %s and %s", tostring(a), tostring(b))
  end
  return nn.sum(nn.unsqueeze(a, -1) * nn.unsqueeze(nn.to(b, "i32"), -3), -2)
end
tools.matmul = product

-- Matrix product of the last two dimensions; the others broadcast; a vector is a row on the left, a
-- column on the right. Integers are exact, in i32.
define("matmul(a: tensor, b: tensor)", "torch.matmul", function(a, b)
  local left, right = #shape(a) == 1, #shape(b) == 1
  if not (left or right) then return product(a, b) end
  if #shape(a) == 0 or #shape(b) == 0 then
    fail("matmul: expected vectors or matrices, got %s and %s", tostring(a), tostring(b))
  end
  if left then a = nn.unsqueeze(a, 1) end
  if right then b = nn.unsqueeze(b, 2) end
  local y = product(a, b)
  local dims = shape(y)
  if right then table.remove(dims, #dims) end
  if left then table.remove(dims, right and #dims or #dims - 1) end
  return op.reshape(y, {dims = dims})
end)
local function of_ranks(name, m, n)
  return function(a, b)
    if #shape(a) ~= m or #shape(b) ~= n then
      fail("%s: expected %d and %d dimensions, got %s and %s", name, m, n, tostring(a), tostring(b))
    end
    return nn.matmul(a, b)
  end
end
define("mm(a: tensor, b: tensor)", "torch.mm", of_ranks("mm", 2, 2))
define("bmm(a: tensor, b: tensor)", "torch.bmm", of_ranks("bmm", 3, 3))
define("mv(a: tensor, b: tensor)", "torch.mv", of_ranks("mv", 2, 1))
define("dot|vdot(a: tensor, b: tensor)", "torch.dot", of_ranks("dot", 1, 1))
-- Dot product of vectors along an axis of the shape that both broadcast to.
define("vecdot(a: tensor, b: tensor, axis: any = -1)", "torch.linalg.vecdot", function(a, b, axis)
  local products = a * b
  return nn.sum(products, tools.axis_or_only("vecdot: axis", axis, products))
end)
-- Dot products along the last dimensions of both.
define("inner(a: tensor, b: tensor)", "torch.inner", function(a, b)
  if #shape(a) == 0 or #shape(b) == 0 then return a * b end
  return nn.tensordot(a, b, 1, -1, -1)
end)
-- Outer product: (N) and (M) -> (N, M).
define("outer|ger(a: tensor, b: tensor)", "torch.outer", function(a, b)
  if #shape(a) ~= 1 or #shape(b) ~= 1 then
    fail("outer: expected vectors, got %s and %s", tostring(a), tostring(b))
  end
  return nn.unsqueeze(a, 2) * nn.unsqueeze(b, 1)
end)
-- beta * x + alpha * a @ b.
local function added(x, y, o)
  if o.alpha ~= 1 then y = y * o.alpha end
  if o.beta == 0 then return y end
  return (o.beta ~= 1 and x * o.beta or x) + y
end
define("addmm(x: tensor, a: tensor, b: tensor, {beta: number = 1, alpha: number = 1})",
       "torch.addmm", function(x, a, b, o) return added(x, nn.mm(a, b), o) end)
define("addmv(x: tensor, a: tensor, b: tensor, {beta: number = 1, alpha: number = 1})",
       "torch.addmv", function(x, a, b, o) return added(x, nn.mv(a, b), o) end)
define("baddbmm(x: tensor, a: tensor, b: tensor, {beta: number = 1, alpha: number = 1})",
       "torch.baddbmm", function(x, a, b, o) return added(x, nn.bmm(a, b), o) end)
define("addbmm(x: tensor, a: tensor, b: tensor, {beta: number = 1, alpha: number = 1})",
       "torch.addbmm", function(x, a, b, o) return added(x, nn.sum(nn.bmm(a, b), 1), o) end)
define("addr(x: tensor, a: tensor, b: tensor, {beta: number = 1, alpha: number = 1})",
       "torch.addr", function(x, a, b, o) return added(x, nn.outer(a, b), o) end)
-- Kronecker product.
define("kron(a: tensor, b: tensor)", "torch.kron", function(a, b)
  local rank = math.max(#shape(a), #shape(b))
  local p, q = shape(a), shape(b)
  while #p < rank do table.insert(p, 1, 1) end
  while #q < rank do table.insert(q, 1, 1) end
  local left, right, dims = {}, {}, {}
  for i = 1, rank do
    left[2 * i - 1], left[2 * i], right[2 * i - 1], right[2 * i] = p[i], 1, 1, q[i]
    dims[i] = p[i] * q[i]
  end
  if 2 * rank > 8 then
    fail("kron: expected at most 4 dimensions, got %s and %s", tostring(a), tostring(b))
  end
  return op.reshape(op.reshape(a, {dims = left}) * op.reshape(b, {dims = right}), {dims = dims})
end)
-- Cross product of 3-element vectors along an axis.
define("cross(a: tensor, b: tensor, axis: axis = -1)", "torch.cross", function(a, b, axis)
  if shape(a)[axis] ~= 3 then fail("cross: axis %d of %s has not 3 elements", axis, tostring(a)) end
  local function turned(x, by) return nn.roll(x, -by, axis) end
  return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1)
end)
-- The product of several matrices, multiplied from the left.
define("multi_dot|chain_matmul(tensors: tensors)", "torch.linalg.multi_dot", function(list)
  local y = list[1]
  for i = 2, #list do y = nn.matmul(y, list[i]) end
  return y
end)

local function want_square(what, x)
  local dims = shape(x)
  if #dims < 2 or dims[#dims] ~= dims[#dims - 1] then
    fail("%s: expected square matrices, got %s", what, tostring(x))
  end
end
-- The n-th power of a square matrix; n = 0: the identity.
define("matrix_power(x: tensor, n: whole)", "torch.matrix_power", function(x, n)
  local dims = shape(x)
  if n < 0 then fail("matrix_power: n = %d: there are no inverses", n) end
  want_square("matrix_power", x)
  if n == 0 then return nn.expand(nn.eye(dims[#dims]), dims) end
  local result
  while n > 0 do
    if n % 2 == 1 then result = result and nn.matmul(result, x) or x end
    n = n // 2
    if n > 0 then x = nn.matmul(x, x) end
  end
  return result
end)

-- The exponential of square matrices: Taylor series of x / 2^s with 1-norm at most 1, squared s
-- times; s is at most 8, for norms up to 256.
define("matrix_exp(x: tensor)", "torch.matrix_exp, torch.linalg.matrix_exp", function(x)
  want_square("matrix_exp", x)
  local terms, most = 12, 8
  local norm = op.stop_gradient(nn.matrix_norm(x, 1, nil, true))
  local halvings = nn.clamp(op.ceil(nn.log2(norm)), 0.0, most + 0.0)
  local part, one = x * nn.exp2(-halvings), nn.eye(shape(x)[#shape(x)])
  local y = part * (1 / terms) + one
  for k = terms - 1, 1, -1 do y = nn.matmul(part, y) * (1 / k) + one end
  for k = 1, most do y = op.where(op.ge(halvings, k + 0.0), nn.matmul(y, y), y) end
  return y
end)

-- ---- einsum -----------------------------------------------------------------------------------

-- The letters of a term such as "bij"; "..." becomes upper-case letters that no term uses, from the
-- last dimension on.
local function letters_of(term, rank, most)
  local list, dots = {}, term:find("...", 1, true)
  local named = #term - (dots and 3 or 0)
  local i = 1
  while i <= #term do
    if i == dots then
      local free = (rank or named + most) - named
      for j = free, 1, -1 do list[#list + 1] = "..." .. j end
      i = i + 3
    else
      list[#list + 1] = term:sub(i, i)
      i = i + 1
    end
  end
  return list, rank and rank - named or 0
end

-- A factor: a tensor with named dimensions.
local function has(list, name) for i, v in ipairs(list) do if v == name then return i end end end

-- Takes the diagonal over repeated names of a factor.
local function diagonals(f)
  for i = 1, #f.names do
    for j = #f.names, i + 1, -1 do
      if f.names[i] == f.names[j] then
        f.x = nn.diagonal(f.x, 0, i, j)
        local name = table.remove(f.names, j)
        table.remove(f.names, i)
        f.names[#f.names + 1] = name
        return diagonals(f)
      end
    end
  end
  return f
end

-- Sums over the dimensions of f that are not in `kept`.
local function sum_out(f, kept)
  local axes, names = {}, {}
  for i, name in ipairs(f.names) do
    if has(kept, name) then names[#names + 1] = name else axes[#axes + 1] = i end
  end
  return #axes == 0 and f or {x = nn.sum(f.x, axes), names = names}
end

-- f with the dimensions `names`, of size 1 if it lacks one.
local function laid_out(f, names)
  local order, dims = {}, {}
  for _, name in ipairs(names) do
    local at = has(f.names, name)
    if at then order[#order + 1] = at end
    dims[#dims + 1] = at and shape(f.x)[at] or 1
  end
  return op.reshape(nn.permute(f.x, order), {dims = dims})
end

local function join(a, b)
  local all = table.move(a, 1, #a, 1, {})
  for _, name in ipairs(b) do all[#all + 1] = name end
  return all
end

-- The product of two factors; `kept`: the names that later factors or the result use.
local function multiply(a, b, kept)
  local function alone(f, other)
    local wanted = join(kept, other.names)
    return sum_out(f, wanted)
  end
  a, b = alone(a, b), alone(b, a)
  local batch, rows, columns, inner = {}, {}, {}, {}
  for _, name in ipairs(a.names) do
    local list = not has(b.names, name) and rows or has(kept, name) and batch or inner
    list[#list + 1] = name
  end
  for _, name in ipairs(b.names) do
    if not has(a.names, name) then
      columns[#columns + 1] = name
    end
  end
  if #inner == 0 then
    local names = join(batch, join(rows, columns))
    return {x = laid_out(a, names) * laid_out(b, names), names = names}
  end
  local sizes = {}
  for _, f in ipairs{a, b} do
    for i, name in ipairs(f.names) do
      sizes[name] = (sizes[name] or 1) ~= 1 and sizes[name] or shape(f.x)[i]
    end
  end
  for _, f in ipairs{a, b} do -- sizes of 1 broadcast
    local wide = {}
    for i, name in ipairs(f.names) do wide[i] = sizes[name] end
    f.x = nn.expand(f.x, wide)
  end
  local function count(names)
    local n = 1; for _, name in ipairs(names) do n = n * sizes[name] end; return n
  end
  -- The larger of the product and the factor that has these names is not transposed.
  local all = count(batch) * count(rows) * count(columns)
  local function order(list, f)
    if all <= count(f.names) then return end
    table.sort(list, function(x, y) return has(kept, x) < has(kept, y) end)
  end
  order(rows, a)
  order(columns, b)
  local left = op.reshape(laid_out(a, join(batch, join(rows, inner))),
                          {dims = {count(batch), count(rows), count(inner)}})
  local right = op.reshape(laid_out(b, join(batch, join(inner, columns))),
                           {dims = {count(batch), count(inner), count(columns)}})
  local names = join(batch, join(rows, columns))
  local dims = {}
  for i, name in ipairs(names) do dims[i] = sizes[name] end
  return {x = op.reshape(product(left, right), {dims = dims}), names = names}
end

-- einsum(equation, a, b, ...): sums of products by named dimensions, as in "bij,bjk->bik"; a name
-- twice in one term selects its diagonal, "..." stands for leading dimensions that broadcast;
-- without -> the result has the names that occur once, in alphabetical order. Operands are
-- multiplied from the left.
function nn.einsum(equation, ...)
  local list = {...}
  if type(equation) ~= "string" then
    fail("einsum: expected an equation, as in nn.einsum(\"ij,jk->ik\", a, b)")
  end
  if #list == 1 and type(list[1]) == "table" then list = list[1] end
  local text = string.gsub(equation, "%s", "")
  local left, right = string.match(text, "^([^>]*)%->(.*)$")
  left = left or text
  if string.find(text, "[^%a,.>%-]") then
    fail("einsum: \"%s\": expected letters, commas, ... and ->", equation)
  end
  local factors, dots, sizes = {}, 0, {}
  for term in string.gmatch(left .. ",", "([^,]*),") do
    local x = tools.tensor("einsum: operand " .. #factors + 1, list[#factors + 1])
    local names, free = letters_of(term, #shape(x), 0)
    if #names ~= #shape(x) or free < 0 or not term:find("...", 1, true) and free ~= 0 then
      fail("einsum: \"%s\" is not for %s", term, tostring(x))
    end
    dots = math.max(dots, free)
    for i, name in ipairs(names) do
      local d = shape(x)[i]
      if sizes[name] and sizes[name] ~= d and sizes[name] ~= 1 and d ~= 1 then
        fail("einsum: '%s' is %d and %d", name, sizes[name], d)
      end
      sizes[name] = sizes[name] ~= 1 and sizes[name] or d
    end
    factors[#factors + 1] = {x = x, names = names}
  end
  if #factors ~= #list then
    fail("einsum: \"%s\" has %d terms, %d tensors are given", equation, #factors, #list)
  end
  local result
  if right then
    result = letters_of(right, nil, dots)
  else
    local often = {}
    for _, f in ipairs(factors) do for _,
        name in ipairs(f.names) do often[name] = (often[name] or 0) + 1 end end
    result = {}
    for j = dots, 1, -1 do result[#result + 1] = "..." .. j end
    for _, name in ipairs(tools.sorted_keys(often)) do
      if often[name] == 1 and not name:find("...", 1, true) then result[#result + 1] = name end
    end
  end
  for i, name in ipairs(result) do
    if not sizes[name] then fail("einsum: '%s' of the result is in no term", name) end
    for j = 1, i - 1 do
      if result[j] == name then
        fail("einsum: '%s' is in the result twice", name)
      end
    end
  end
  local y = diagonals(factors[1])
  for i = 2, #factors do
    local kept = result
    for j = i + 1, #factors do kept = join(kept, factors[j].names) end
    y = multiply(y, diagonals(factors[i]), kept)
  end
  y = sum_out(y, result)
  local order, same = {}, true
  for i, name in ipairs(result) do
    order[i] = has(y.names, name)
    same = same and order[i] == i
  end
  return same and y.x or nn.permute(y.x, order)
end

-- Sums of products over axes: the last `axes` of a and the first of b if a number, else the listed
-- axes of each, {{1, 3}, {2, 1}}.
define("tensordot(a: tensor, b: tensor, count|dims: any = 2, left: axes = nil, right: any = nil)",
       "torch.tensordot", function(a, b, count, left, right)
  local p, q = #shape(a), #shape(b)
  if type(count) == "table" then
    if #count ~= 2 then
      fail("tensordot: expected axes of both, as in {{1, 3}, {2, 1}}, got %s", tools.said(count))
    end
    left, right = count[1], count[2]
  end
  if not left then
    left, right = {}, {}
    if tools.whole("tensordot: count", count) > math.min(p, q) then
      fail("tensordot: the last %d axes of %s and the first of %s", count, tostring(a), tostring(b))
    end
    for i = 1, count do left[i], right[i] = p - count + i, i end
  else
    left, right = tools.axes("tensordot", left, a), tools.axes("tensordot", right, b)
  end
  if #left ~= #right or #left > math.min(p, q) then
    fail("tensordot: %d axes of %s and %d of %s", #left, tostring(a), #right, tostring(b))
  end
  local function word(n, from) return utf8.char(from + n) end
  local names_a, names_b, out = {}, {}, {}
  for i = 1, p do names_a[i] = word(i, 96) end
  for i = 1, q do names_b[i] = word(i, 64) end
  for i = 1, #left do names_b[right[i]] = names_a[left[i]] end
  for i = 1, p do if not has(left, i) then out[#out + 1] = names_a[i] end end
  for i = 1, q do if not has(right, i) then out[#out + 1] = names_b[i] end end
  return nn.einsum(table.concat(names_a) .. "," .. table.concat(names_b) .. "->" ..
                   table.concat(out), a, b)
end)
