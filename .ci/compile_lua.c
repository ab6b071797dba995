// compile_lua.c NAME OUT: compiles the Lua file NAME to OUT, as Lua loads it, lines of errors kept.
// nngen carries its Lua files so: reading their text took most of its start.
#include <lauxlib.h>
#include <stdio.h>

static int put(lua_State *lua, const void *bytes, size_t count, void *file) {
  (void)lua;
  return fwrite(bytes, 1, count, file) != count;
}

int main(int argc, char **argv) {
  static char text[1 << 20];
  if (argc != 3) return 2;
  FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
  size_t size = in ? fread(text, 1, sizeof text, in) : sizeof text;
  if (size == sizeof text || !out) return perror(in ? argv[2] : argv[1]), 1;
  lua_State *lua = luaL_newstate();
  const char *name = lua_pushfstring(lua, "=%s", argv[1]);
  if (luaL_loadbufferx(lua, text, size, name, "t"))
    return fprintf(stderr, "%s\n", lua_tostring(lua, -1)), 1;
  int bad = lua_dump(lua, put, out, 0);
  if (fclose(out) || bad) return perror(argv[2]), remove(argv[2]), 1;
  return 0;
}
