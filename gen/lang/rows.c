// rows.c: loads ops.lua, and the rows that a model file adds, into the table of ops.
#include "lang.h"

#include <lauxlib.h>
#include <string.h>

// The names a row's `form` may have, by class.
static const char *const forms[OpClassCount][8] = {
    [OpSource] = {"input", "param", "const", "index", "state"},
    [OpMove] = {"reshape", "permute", "slice", "concat", "pad", "roll", "gather", "along"},
};

const char *rows_form(const Op *op) {
  return forms[op->cls][op->form];
}

static const struct {
  const char *name;
  unsigned flag;
} flag_names[] = {{"commutes", FlagCommutes},
                  {"equal", FlagEqual},
                  {"add", FlagAdd},
                  {"sub", FlagSub},
                  {"mul", FlagMul},
                  {"div", FlagDiv},
                  {"neg", FlagNeg},
                  {"exp", FlagExp},
                  {"log", FlagLog},
                  {"power", FlagPower},
                  {"one", FlagOne},
                  {"place", FlagPlace},
                  {"max", FlagMax},
                  {"copy", FlagCopy},
                  {"stop", FlagStop},
                  {"exact", FlagExact},
                  {"wide", FlagWide},
                  {"shrinks", FlagShrinks},
                  {"bounded", FlagBounded},
                  {"online", FlagOnline},
                  {"lipschitz", FlagLipschitz}};

// ---- reading a row ----------------------------------------------------------------------------

static const char *field_text(lua_State *lua, const char *name) {
  return rows_text(lua, 1, name);
}

static double field_number(lua_State *lua, const char *name, double fallback) {
  return rows_number(lua, 1, name, fallback);
}

static int field_function(lua_State *lua, const char *name) {
  return rows_function(lua, 1, name);
}

const char *rows_text(lua_State *lua, int table, const char *name) {
  lua_getfield(lua, table, name);
  const char *text = lua_tostring(lua, -1);
  if (text) text = arena_dup(front_compiler(lua)->arena, text);
  lua_pop(lua, 1);
  return text;
}

double rows_number(lua_State *lua, int table, const char *name, double fallback) {
  lua_getfield(lua, table, name);
  double v = lua_isnumber(lua, -1) ? lua_tonumber(lua, -1) : fallback;
  lua_pop(lua, 1);
  return v;
}

int rows_function(lua_State *lua, int table, const char *name) {
  lua_getfield(lua, table, name);
  if (lua_isfunction(lua, -1)) return luaL_ref(lua, LUA_REGISTRYINDEX);
  lua_pop(lua, 1);
  return LUA_NOREF;
}

// The bits of the words listed in field `name`, looked up by `find`.
static unsigned field_bits(lua_State *lua, const char *name,
                           unsigned (*find)(Compiler *, const char *)) {
  unsigned bits = 0;
  if (lua_getfield(lua, 1, name) == LUA_TTABLE)
    for (int i = 1; lua_geti(lua, -1, i) != LUA_TNIL; i++) {
      bits |= find(front_compiler(lua), luaL_checkstring(lua, -1));
      lua_pop(lua, 1);
    }
  else
    lua_pushnil(lua);
  lua_pop(lua, 2);
  return bits;
}

static unsigned attr_bit(Compiler *c, const char *word) {
  for (int i = 0; i < attr_nfields; i++)
    if (!strcmp(word, attr_fields[i].name)) return 1u << i;
  err_at(c, front_here(c->lua), "op: unknown attribute '%s'", word);
}

static unsigned flag_bit(Compiler *c, const char *word) {
  for (size_t i = 0; i < sizeof flag_names / sizeof flag_names[0]; i++)
    if (!strcmp(word, flag_names[i].name)) return flag_names[i].flag;
  err_at(c, front_here(c->lua), "op: unknown flag '%s'", word);
}

static int word_index(const char *word, const char *const *words, int count) {
  for (int i = 0; i < count && words[i]; i++)
    if (word && !strcmp(word, words[i])) return i;
  return -1;
}

static const char *const typings[TypingCount] = {"float", "arith",   "compare", "where",
                                                 "logic", "convert", "draw", "whole"};

const char *rows_typing(const Op *op) {
  return typings[op->typing];
}

static int class_index(const char *word) {
  int i = OpClassCount - 1;
  while (i >= 0 && strcmp(word, op_class_name((OpClass)i))) i--;
  return i;
}

static bool combines(const Op *op) { // the elements along some dimensions, by a monoid
  return op->cls == OpReduce || op->cls == OpScan;
}

static void check_row(lua_State *lua, const Op *op) {
  if (op_find(front_compiler(lua), op->name))
    err_at(front_compiler(lua), front_here(lua), "op: '%s' is declared already", op->name);
  for (const char *s = op->name; *s; s++)
    if (!strchr("abcdefghijklmnopqrstuvwxyz_0123456789", *s))
      err_at(front_compiler(lua), front_here(lua), "op: name '%s' may have a-z, 0-9 and _ only",
             op->name);
  if (op->cls == OpMap && (op->nin < 1 || op->nin > MaxInputs))
    err_at(front_compiler(lua), front_here(lua), "op '%s': nin must be 1 to 3, not %d", op->name,
           op->nin);
  if ((op->cls == OpMap || op->cls == OpWindow || (combines(op) && !op->acc)) && !op->cuda)
    err_at(front_compiler(lua), front_here(lua), "op '%s': needs cuda = \"expression over $1\"",
           op->name);
  if (op->cls == OpMap && op->ref == LUA_NOREF)
    err_at(front_compiler(lua), front_here(lua),
           "op '%s': needs ref = function(x), the op on numbers", op->name);
}

static bool known_function(const char *word, size_t n) {
  static const char *const names[] = {
      "nn_exp", "nn_exp2", "nn_log", "nn_sqrt",  "nn_rsqrt", "nn_tanh",  "nn_erf",
      "nn_sin", "nn_cos",  "nn_pow", "nn_floor", "nn_ceil",  "nn_round", "nn_abs",
      "nn_fma", "nn_max",  "nn_min", "nn_isnan", "nn_inf",   "nn_nan",   "nn_trunc",
      "nn_erfc", "nn_log1p", "nn_expm1", "nn_atan", "nn_atan2", NULL};
  for (int i = 0; names[i]; i++)
    if (strlen(names[i]) == n && !strncmp(names[i], word, n)) return true;
  return false;
}

// Only numbers, $1 $2 .., operators and the functions above are allowed.
bool rows_is_expression(const char *text) {
  while (*text) {
    if (strchr("0123456789.", *text)) { // a number, with exponent and suffix
      text += strspn(text, "0123456789.");
      if (*text == 'e') text += 1 + (text[1] == '-' || text[1] == '+');
      text += strspn(text, "0123456789f");
    } else if ((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || *text == '_') {
      size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
      if (!known_function(text, n)) return false;
      text += n;
    } else if (*text == '$') {
      if (text[1] < '1' || text[1] > '0' + MaxInputs) return false;
      text += 2;
    } else if (strchr(" +-*/()<>=!?:,&|", *text) && strncmp(text, "//", 2) &&
               strncmp(text, "/*", 2)) {
      text++;
    } else {
      return false;
    }
  }
  return true;
}

// CUDA text of a model file is pasted into kernels, so it must be a plain expression.
static void check_user_text(lua_State *lua, const Op *op) {
  if (op->cls == OpReduce && op->acc) {
    monoid_check(lua, op);
    return;
  }
  if (op->cls != OpMap && op->cls != OpReduce)
    err_at(front_compiler(lua), front_here(lua),
           "op '%s': a model may declare class \"map\" or \"reduce\" only", op->name);
  if (!rows_is_expression(op->cuda))
    err_at(front_compiler(lua), front_here(lua),
           "op '%s': cuda must be one expression of $1, numbers, operators and the nn_ functions, "
           "not '%s'",
           op->name, op->cuda);
}

// op{ name=, class=, nin=, cuda=, ref=, grad=, ... }: adds a row. Upvalue 1: true in model files.
int rows_declare(lua_State *lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_settop(lua, 1);
  Compiler *c = front_compiler(lua);
  Op *op = arena_alloc(c->arena, sizeof *op);
  const char *name = field_text(lua, "name"), *cls = field_text(lua, "class");
  if (!name) err_at(front_compiler(lua), front_here(lua), "op: needs a name");
  op->name = name;
  int index = class_index(cls ? cls : "map");
  if (index < 0)
    err_at(front_compiler(lua), front_here(lua), "op '%s': unknown class '%s'", name, cls);
  op->cls = (OpClass)index;
  const char *form = field_text(lua, "form");
  op->form = form ? word_index(form, forms[index], 8) : 0;
  if (op->form < 0)
    err_at(front_compiler(lua), front_here(lua), "op '%s': unknown form '%s'", name, form);
  op->nin = (int)field_number(lua, "nin", 1);
  const char *typing = field_text(lua, "type");
  index = word_index(typing ? typing : "float", typings, TypingCount);
  if (index < 0) err_at(c, front_here(lua), "op '%s': unknown type '%s'", name, typing);
  op->typing = (Typing)index;
  op->flags = field_bits(lua, "flags", flag_bit);
  op->attrs = field_bits(lua, "attrs", attr_bit);
  op->cuda = field_text(lua, "cuda");
  op->init = field_text(lua, "init");
  op->ref_init = field_number(lua, "ref_init", 0);
  if (op->cls == OpContract) maps_read(lua, op);
  op->acc = combines(op) ? monoid_read(lua, op) : NULL;
  op->result = combines(op) ? field_text(lua, "result") : NULL;
  op->ref_result = field_function(lua, "ref_result");
  const char *gives = field_text(lua, "gives");
  if (gives && !dtype_parse(gives, &op->gives))
    err_at(front_compiler(lua), front_here(lua), "op '%s': gives no dtype '%s'", name, gives);
  op->flops = (int)field_number(lua, "flops", 1);
  op->ref = field_function(lua, "ref");
  op->grad = field_function(lua, "grad");
  op->user = lua_toboolean(lua, lua_upvalueindex(1));
  if (!op->user) op->wraps = field_text(lua, "wraps"), op->narrow = field_text(lua, "narrow");
  if (op->user) op->loc = front_here(lua);
  check_row(lua, op);
  if (op->user) check_user_text(lua, op);
  if (combines(op)) monoid_complete(c, op, field_text(lua, "whole"));
  c->ops = arena_grow(c->arena, c->ops, c->nops, sizeof *c->ops);
  c->ops[c->nops++] = op;
  return 0;
}

void rows_load(Compiler *c) {
  lua_pushboolean(c->lua, false);
  lua_pushcclosure(c->lua, rows_declare, 1);
  lua_setglobal(c->lua, "op");
  front_load(c, "gen/lang/ops.lua");
  if (lua_pcall(c->lua, 0, 0, 0)) die("%s", lua_tostring(c->lua, -1));
}
