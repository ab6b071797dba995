//@ local function arguments(entry, host)
//@   local list = {}
//@   for _, kind in ipairs{"inputs", "outputs"} do
//@     for _, t in ipairs(host and entry[kind] or {}) do
//@       local const = kind == "inputs" and "const " or ""
//@       list[#list + 1] = string.format("std::span<%s%s, %d> %s", const, t.type, t.count, t.ident)
//@     end
//@     if not host and #entry[kind] > 0 then
//@       list[#list + 1] = string.format("const %s &%s", k.struct(entry, kind), kind)
//@     end
//@   end
//@   return #list > 0 and table.concat(list, ", ") .. ", " or ""
//@ end
//@ local function passed(entry)
//@   return (#entry.inputs > 0 and "&inputs, " or "") .. (#entry.outputs > 0 and "&outputs, " or "")
//@ end
// $(k.name).hpp: $(k.name).h for C++20: RAII handles, spans of fixed length, exceptions. Header only:
// compile and link $(k.name).c.
//
// $(k.made)
#ifndef $(k.NAME)_HPP
#define $(k.NAME)_HPP

#include "$(k.name).h"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace $(k.name)_cpp {

class Error : public std::runtime_error {
public:
  Error($(k.name)_status code, const std::string &message)
      : std::runtime_error($(k.name)_error_string(code) + (": " + message)), status(code) {}
  $(k.name)_status status;
};

struct Free {
  void operator()($(k.name) *net) const { ::$(k.name)_destroy(net); }
  void operator()($(k.name)_graph *graph) const { ::$(k.name)_graph_destroy(graph); }
};

// One run, captured. The network must outlive it.
class Graph {
public:
  void replay(CUstream stream = nullptr) { check(::$(k.name)_replay(graph_.get(), stream)); }

private:
  friend class Network;
  Graph($(k.name) *net, $(k.name)_graph *graph) : net_(net), graph_(graph) {}
  void check(::$(k.name)_status status) const {
    if (status) throw Error(status, ::$(k.name)_message(net_));
  }
  $(k.name) *net_;
  std::unique_ptr<$(k.name)_graph, Free> graph_;
};

class Network {
public:
  explicit Network($(k.name)_options options = $(k.name)_default_options()) {
    char message[256] = "";
    $(k.name) *net = nullptr;
    options.message = message;
    options.message_bytes = sizeof message;
    $(k.name)_status status = ::$(k.name)_create(&net, &options);
    if (status) throw Error(status, message);
    net_.reset(net);
  }

  $(k.name) *get() const { return net_.get(); } // for the functions of $(k.name).h

//@ for _, entry in ipairs(k.entries) do
//@   local name = entry.ident == k.name and entry.ident .. "_entry" or entry.ident
  // Device pointers; enqueued.
  void $(name)($(arguments(entry, false))CUstream stream = nullptr) {
    check(::$(k.name)_$(entry.ident)(get(), $(passed(entry))stream));
  }

  // Host memory; returns when it is done.
  void $(name)_host($(arguments(entry, true))CUstream stream = nullptr) {
//@   for _, kind in ipairs{"inputs", "outputs"} do
//@     local names = {}
//@     for i, t in ipairs(entry[kind]) do names[i] = t.ident .. ".data()" end
//@     if #names > 0 then
    $(k.struct(entry, "host_" .. kind)) $(kind) = {$(table.concat(names, ", "))};
//@     end
//@   end
    check(::$(k.name)_$(entry.ident)_host(get(), $(passed(entry))stream));
  }

  Graph $(entry.stem)capture($(string.gsub(arguments(entry, false), ", $", ""))) {
    $(k.name)_graph *graph = nullptr;
    check(::$(k.name)_$(entry.stem)capture(get(), $(passed(entry))&graph));
    return Graph(get(), graph);
  }

  auto $(entry.stem)profile($(arguments(entry, false))CUstream stream = nullptr) {
    std::array<$(k.name)_launch_time, $(k.NAME)_$(entry.NAME)_LAUNCHES> times;
    check(::$(k.name)_$(entry.stem)profile(get(), $(passed(entry))stream, times.data()));
    return times;
  }

//@ end
//@ if #k.states > 0 then
  // All bytes of a state; the copy is done when they return.
  void state_read($(k.name)_state state, std::span<std::byte> to, CUstream stream = nullptr) {
    check_size(state, to.size());
    check(::$(k.name)_state_read(get(), state, to.data(), stream));
    check(::$(k.name)_synchronize(get(), stream));
  }
  void state_write($(k.name)_state state, std::span<const std::byte> from,
                   CUstream stream = nullptr) {
    check_size(state, from.size());
    check(::$(k.name)_state_write(get(), state, from.data(), stream));
    check(::$(k.name)_synchronize(get(), stream));
  }
  void state_reset($(k.name)_state state, CUstream stream = nullptr) {
    check(::$(k.name)_state_reset(get(), state, stream));
  }

//@ end
private:
  void check(::$(k.name)_status status) const {
    if (status) throw Error(status, ::$(k.name)_message(get()));
  }
//@ if #k.states > 0 then
  static void check_size($(k.name)_state state, std::size_t bytes) {
    if (bytes != ::$(k.name)_state_bytes(state))
      throw Error($(k.NAME)_ERROR_ARGUMENT, "a state has another size");
  }
//@ end
  std::unique_ptr<$(k.name), Free> net_;
};

} // namespace $(k.name)_cpp
#endif
