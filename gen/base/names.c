// names.c: unique identifiers of a kernel or of a plan.
#include "base.h"

#include <ctype.h>
#include <string.h>
#include <uthash.h>

typedef struct Word {
  const char *text;
  int next;            // suffix to try next for this word
  bool taken;          // by names_take
  struct Word *before; // previously taken word
  UT_hash_handle hh;
} Word;

struct Names {
  Arena *arena;
  Names *reserved;
  Word *words, *last;
};

Names *names_new(Arena *arena, Names *reserved) {
  Names *names = arena_alloc(arena, sizeof *names);
  names->arena = arena;
  names->reserved = reserved;
  return names;
}

static Word *find(Names *names, const char *text) {
  Word *w;
  HASH_FIND_STR(names->words, text, w);
  return w;
}

// uthash allocates from the arena too: tables are never freed singly.
#undef uthash_malloc
#undef uthash_free
#define uthash_malloc(size) arena_alloc(names->arena, size)
#define uthash_free(p, size) ((void)(p))

static Word *add(Names *names, const char *text, int next) {
  Word *w = arena_alloc(names->arena, sizeof *w);
  w->text = arena_dup(names->arena, text);
  w->next = next;
  HASH_ADD_KEYPTR(hh, names->words, w->text, strlen(w->text), w);
  return w;
}

void names_reserve(Names *names, const char *word) {
  if (!find(names, word)) add(names, word, 1);
}

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

// True if the line holds template Lua, whose strings may contain code.
static bool has_lua(const char *line) {
  return !strncmp(line, "//@", 3) || memmem(line, strcspn(line, "\n"), "$(", 2);
}

// Skips a string or comment, whose words are not identifiers.
static const char *skip_quoted(const char *text) {
  if (text[0] == '/' && text[1] == '/') return text + strcspn(text, "\n");
  if (*text != '"') return text;
  for (text++; *text && *text != '"' && *text != '\n'; text++)
    if (*text == '\\' && text[1]) text++;
  return *text == '"' ? text + 1 : text;
}

void names_reserve_words(Names *names, const char *text) {
  bool lua = has_lua(text);
  while (*text) {
    size_t n = 0;
    while (is_word(text[n])) n++;
    if (n && !isdigit((unsigned char)*text) && n < 64) {
      char word[64];
      memcpy(word, text, n);
      word[n] = 0;
      names_reserve(names, word);
    }
    const char *rest = n || lua ? text : skip_quoted(text);
    if (*text == '\n') lua = has_lua(text + 1);
    text = n ? text + n : rest > text ? rest : text + 1;
  }
}

// Keywords of C++20, and macros or variables present in every kernel: CUDA built-ins, and names of
// C's headers and host compilers (on libcusim a kernel is host C++).
void names_reserve_cpp(Names *names) {
  static const char words[] =
      "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t "
      "char16_t "
      "char32_t class compl concept const consteval constexpr constinit const_cast continue "
      "co_await co_return co_yield decltype default delete do double dynamic_cast else enum "
      "explicit export extern false float for friend goto if inline int long mutable namespace new "
      "noexcept not not_eq nullptr operator or or_eq private protected public register "
      "reinterpret_cast requires return short signed sizeof static static_assert static_cast "
      "struct switch template this thread_local throw true try typedef typeid typename union "
      "unsigned using virtual void volatile wchar_t while xor xor_eq override final import module "
      "restrict half threadIdx blockIdx blockDim gridDim warpSize dim3 uint3 float2 float4 int2 "
      "int4 uint4 size_t int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t "
      "ptrdiff_t "
      "NULL NAN INFINITY HUGE_VAL EOF errno stdin stdout stderr assert linux unix i386 environ "
      "main "
      "isnan isinf isfinite signbit offsetof va_list va_start va_end va_arg setjmp min max abs exp "
      "exp2 log log2 log10 pow sqrt rsqrt sin cos tan tanh erf floor ceil round fabs fma rint "
      "trunc "
      "y0 y1 yn j0 j1 jn gamma signgam clock time std index";
  names_reserve_words(names, words);
}

// Letters, digits and _; does not begin with a digit or _ (reserved in C++), nor with the prefix of
// libcusim's macros.
static const char *identifier(Names *names, const char *text) {
  char *word = arena_printf(names->arena, "v%s", text);
  for (char *s = word; *s; s++)
    if (!is_word(*s)) *s = '_';
  bool plain = isalpha((unsigned char)word[1]) && strncmp(word + 1, "CUSIM_", strlen("CUSIM_"));
  return plain ? word + 1 : word;
}

const char *names_take(Names *names, const char *wanted) {
  const char *text = identifier(names, wanted);
  Word *w = find(names, text);
  if (!w && names->reserved && find(names->reserved, text)) w = add(names, text, 1);
  for (Word *first = w; w;) {
    const char *next = arena_printf(names->arena, "%s_%d", text, first->next++);
    w = find(names, next);
    if (!w && names->reserved) w = find(names->reserved, next);
    if (!w) text = next;
  }
  w = add(names, text, 2);
  w->taken = true;
  w->before = names->last;
  names->last = w;
  return w->text;
}

bool names_has(const Names *names, const char *word) {
  Names *n = (Names *)names; // uthash macros lack const, but only look up
  return find(n, word) || (n->reserved && find(n->reserved, word));
}

const char *names_taken(const Names *names) {
  size_t length = 1;
  for (const Word *w = names->last; w; w = w->before) length += strlen(w->text) + 1;
  char *text = arena_alloc(names->arena, length), *end = text + length - 1;
  *end = '\0';
  for (const Word *w = names->last; w; w = w->before) {
    size_t n = strlen(w->text);
    end -= n;
    memcpy(end, w->text, n);
    if (w->before) *--end = ' ';
  }
  return end;
}
