// SPDX-License-Identifier: Apache-2.0
//
// The requests `attach` of a job's leader: each viewer gets what is kept of the job's output, then what comes, as
// fast as it takes it, and the job's exit code at last. A slow one misses lines; the job does not wait for it.
// Without clock and descriptors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/json.hpp"
#include "base/result.hpp"
#include "control/message.hpp"
#include "plugin/task_output.hpp"
#include "plugins/control/scrollback.hpp"

namespace nacre::plugins {

class Viewers final : public plugin::OutputFollower {
 public:
  using ClientId = std::uint64_t;
  static constexpr std::uint64_t kMaxTail = std::uint64_t{1} << 53;  // lines

  // How a viewer is reached: as members of control::ControlServer.
  struct Link {
    std::function<std::size_t(ClientId, std::uint64_t id)> room;
    std::function<bool(ClientId, const control::StreamData&)> put;
    std::function<void(ClientId, const control::StreamEnd&)> put_end;
    std::function<void(ClientId, std::uint64_t id, Json)> part;
    std::function<void(ClientId, std::uint64_t id, const Result<Json>&)> answer;
    // The job's exit code as far as it is certain: all tasks have ended, and nothing else has failed. None: it is
    // not yet.
    std::function<std::optional<int>()> code_of_tasks;
  };

  // `keep`: bytes of output that are kept for those who come later.
  Viewers(std::size_t keep, Link link) : kept_(keep), link_(std::move(link)) {}

  // The job's tasks are ranks 0 to `tasks` - 1.
  void attach(ClientId client, const control::ControlRequest& request, std::uint64_t tasks);
  void has_room(ClientId client, std::uint64_t id);
  void gone(ClientId client);
  // The job's exit code may be known now.
  void look() { serve_all(); }
  // The job's exit code is known: each viewer that has all output gets it.
  void ended(int code);
  // The last of what is kept; see Scrollback::text().
  [[nodiscard]] std::string text(std::size_t most, bool labels) const { return kept_.text(most, labels); }
  // Whether one still has to get something.
  [[nodiscard]] bool any() const { return !viewers_.empty(); }

  void put(const io::Batch& batch) override;
  void all_out() override;

 private:
  struct Viewer {
    Viewer(Scrollback& kept, Scrollback::Wanted wanted, std::size_t cut)
        : reader(kept, std::move(wanted)), least(cut) {}
    Scrollback::Reader reader;
    std::size_t least;   // bytes that it can take at once: a longer line is cut, a shorter one waits for room
    bool waits = false;  // for room
    bool has_all = false;
  };
  using Key = std::pair<ClientId, std::uint64_t>;

  static Result<Scrollback::Wanted> read(const Json& arguments, std::uint64_t tasks);
  // False: its request was answered, and it can be removed.
  bool serve(const Key& key, Viewer& viewer);
  void serve_all();
  std::optional<Scrollback::Piece> next(const Key& key, Viewer& viewer);
  bool send(const Key& key, Viewer& viewer, const Scrollback::Piece& piece);
  void report_missed(const Key& key, Viewer& viewer);

  Scrollback kept_;
  Link link_;
  std::map<Key, std::unique_ptr<Viewer>> viewers_;
  bool is_all_out_ = false;
  std::optional<int> code_;
};

}  // namespace nacre::plugins
