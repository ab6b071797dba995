// photo.c: a picture that looks like a photograph, for runs without an input image.
//
// A ball and two more on a textured ground under a cloudy sky, lit from the upper left, with soft
// shadows, a lens that darkens the corners, and sensor noise. Only + - * / and sqrt are used, so
// the bytes are the same on every machine.
#include <math.h>

#include "data/data.h"

typedef struct Color {
  float r, g, b;
} Color;

typedef struct Ball {
  float x, y, radius; // in picture heights, y down
  Color color;
} Ball;

static const Ball balls[] = {{.42f, .60f, .24f, {.85f, .32f, .16f}},
                             {.98f, .70f, .15f, {.20f, .42f, .75f}},
                             {.70f, .84f, .09f, {.93f, .80f, .30f}}};
static const float kHorizon = .48f;

// A random number in [0, 1) that depends only on the place and the seed.
static float hash(int x, int y, uint64_t seed) {
  uint64_t h = seed ^ (uint64_t)(uint32_t)x * 0x9E3779B97F4A7C15u ^
               (uint64_t)(uint32_t)y * 0xC2B2AE3D27D4EB4Fu;
  h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9u;
  h = (h ^ h >> 32) * 0x94D049BB133111EBu;
  return (float)(h >> 40) * 0x1p-24f;
}

static float mix(float a, float b, float t) {
  return a + (b - a) * t;
}

static float smooth(float t) { // 0 below 0, 1 above 1
  t = t < 0 ? 0 : t > 1 ? 1 : t;
  return t * t * (3 - 2 * t);
}

static float noise(float x, float y, uint64_t seed) {
  int column = (int)floorf(x), row = (int)floorf(y);
  float u = smooth(x - (float)column), v = smooth(y - (float)row);
  return mix(mix(hash(column, row, seed), hash(column + 1, row, seed), u),
             mix(hash(column, row + 1, seed), hash(column + 1, row + 1, seed), u), v);
}

static float fractal(float x, float y, uint64_t seed) { // octaves of noise, in [0, 1)
  float sum = 0, size = .5f;
  for (int octave = 0; octave < 5; octave++, size *= .5f, x *= 2.03f, y *= 2.03f)
    sum += size * noise(x, y, seed + (uint64_t)octave);
  return sum;
}

static Color blend(Color a, Color b, float t) {
  return (Color){mix(a.r, b.r, t), mix(a.g, b.g, t), mix(a.b, b.b, t)};
}

static Color dim(Color color, float light) {
  return (Color){color.r * light, color.g * light, color.b * light};
}

static Color sky(float x, float y, uint64_t seed) {
  Color blue = blend((Color){.30f, .50f, .82f}, (Color){.80f, .86f, .92f}, y / kHorizon);
  float cloud = smooth(fractal(x * 3, y * 7, seed) * 2.6f - .95f);
  return blend(blue, (Color){.95f, .95f, .94f}, cloud * .85f);
}

static float shadow(float x, float y) { // the balls' shadows fall to the lower right
  float light = 1;
  for (int i = 0; i < COUNT(balls); i++) {
    float dx = (x - balls[i].x - .5f * balls[i].radius) / (1.25f * balls[i].radius);
    float dy = (y - balls[i].y - .92f * balls[i].radius) / (.34f * balls[i].radius);
    light *= 1 - .65f * smooth(1.35f - sqrtf(dx * dx + dy * dy));
  }
  return light;
}

static Color ground(float x, float y, uint64_t seed) {
  float depth = .12f / (y - kHorizon + .05f); // far is small
  float grain = fractal((x - .67f) * depth * 60, depth * 90, seed + 7);
  Color earth =
      blend((Color){.36f, .30f, .20f}, (Color){.42f, .52f, .22f}, smooth(grain * 2 - .5f));
  return dim(earth, (.65f + .6f * grain) * shadow(x, y));
}

// The ball's colour at a point of its disc: diffuse light, a highlight, a fine pattern.
static Color surface(const Ball *ball, float dx, float dy, uint64_t seed) {
  float dz = sqrtf(fmaxf(0, 1 - dx * dx - dy * dy));
  float light = fmaxf(0, -.52f * dx - .60f * dy + .61f * dz);
  float shine = light;
  for (int i = 0; i < 5; i++) shine *= shine; // light to the 32nd
  float pattern = .82f + .36f * fractal(dx * 6 + 9, dy * 6 + 9, seed + 13);
  return blend(dim(ball->color, (.18f + .95f * light) * pattern), (Color){1, 1, 1}, .7f * shine);
}

static Color scene(float x, float y, uint64_t seed) {
  Color color = y < kHorizon ? sky(x, y, seed) : ground(x, y, seed);
  for (int i = 0; i < COUNT(balls); i++) {
    float dx = (x - balls[i].x) / balls[i].radius, dy = (y - balls[i].y) / balls[i].radius;
    float distance = sqrtf(dx * dx + dy * dy);
    float cover = smooth((1 - distance) * balls[i].radius * 180); // an edge of a pixel or two
    if (cover > 0) color = blend(color, surface(&balls[i], dx, dy, seed), cover);
  }
  return color;
}

static uint8_t sensor(float value, int x, int y, uint64_t seed) {
  float grain = hash(x, y, seed) + hash(x, y, seed + 1) + hash(x, y, seed + 2) - 1.5f;
  float level = value + .028f * grain;
  return (uint8_t)(255 * fminf(1, fmaxf(0, level)) + .5f);
}

static void expose(Image *image, int x, int y, uint64_t seed) {
  float height = (float)image->height, u = ((float)x + .5f) / height, v = ((float)y + .5f) / height;
  float cx = u - .5f * (float)image->width / height, cy = v - .5f;
  Color color = dim(scene(u, v, seed), 1 - .35f * (cx * cx + cy * cy));
  uint8_t *pixel = image->rgb + 3 * ((size_t)y * (size_t)image->width + (size_t)x);
  pixel[0] = sensor(color.r, x, y, seed + 100);
  pixel[1] = sensor(color.g, x, y, seed + 200);
  pixel[2] = sensor(color.b, x, y, seed + 300);
}

int photo_make(int width, int height, uint64_t seed, Image *image, Error *err) {
  *image = (Image){width, height, heap_alloc((size_t)width * (size_t)height, 3)};
  if (!image->rgb) return heap_error(err, "making a test image");
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) expose(image, x, y, seed);
  return ExitOk;
}
