// SPDX-License-Identifier: Apache-2.0
//
// The requests `attach` of a job's leader: each viewer gets the kept output of the job, then new output, as fast as
// it takes it, and at last the job's exit code. A slow viewer misses lines; the job does not wait for it. Without
// clock and descriptors.
#pragma once

#include "control/message.hpp"
#include "control/server.hpp"
#include "io/batch.hpp"
#include "job/options.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

// The last output of a job, for viewers that come later, and for those that are slow: each reads at a position of
// its own. Output that is too old is dropped, by whole lines; a reader that has not had it learns how much it has
// missed. Without clock and descriptors.
class Scrollback {
 public:
  static constexpr std::size_t kUsual = std::size_t{1} << 20;   // bytes that are kept, by default
  static constexpr std::size_t kQueue = std::size_t{1} << 20;   // bytes by which a reader may be late, at least
  static constexpr std::size_t kPieceCost = 64;                 // bytes that each piece counts beyond its text
  static constexpr std::size_t kMost = std::size_t{256} << 20;  // that may be kept

  // A part of a line, or of several lines, of one stream of one task.
  struct Piece {
    std::uint32_t rank = 0;
    io::Stream stream = io::Stream::out;
    double time = 0;  // as in io::Batch; the same for `continues` and `open`
    std::string text;
    bool continues = false;
    bool open = false;
  };
  struct Wanted {
    std::optional<value::Idset> ranks = {};  // tasks whose output it gets; none: all
    std::array<bool, io::kStreams.size()> streams{true, true};
    std::optional<std::uint64_t> lines = {};  // how many of the kept lines it gets, from the end; none: all
    std::optional<double> since = {};         // nothing older than this time
    bool rests = false;                       // also rests of lines whose beginning was never here
  };
  struct Missed {  // a line counts where it ends; a reader may have had its beginning
    std::uint64_t lines = 0, bytes = 0;
    bool operator==(const Missed&) const = default;
  };

  // A position. It must not outlive the scrollback.
  class Reader : Noncopyable {
   public:
    Reader(Scrollback& from, Wanted wanted);
    ~Reader();

    // The next part, of at most `most` bytes; it ends with a line if one ends in it. None: there is no more yet.
    // The part stays the next one until pass().
    std::optional<Piece> next(std::size_t most);
    void pass(const Piece& piece);
    // What was dropped since the last call before this reader has had it.
    Missed missed() { return std::exchange(missed_, {}); }
    // Bytes of the job's output before the first one that this reader gets, of any task.
    [[nodiscard]] std::uint64_t before() const { return before_; }
    [[nodiscard]] bool is_last() const { return number_ == from_.first_; }  // it has read none of what is kept

   private:
    friend class Scrollback;
    [[nodiscard]] bool wants(const Piece& piece) const;
    void start();
    void start_at_lines(std::uint64_t lines);

    Scrollback& from_;
    Wanted wanted_;
    std::uint64_t number_ = 0;  // of the next piece, ...
    std::size_t offset_ = 0;    // ... from this byte on
    std::uint64_t before_ = 0;
    Missed missed_;
    bool has_missed_ = false;                               // once
    std::set<std::pair<std::uint32_t, io::Stream>> begun_;  // lines whose beginning this reader has
  };

  // `keep`: bytes that are kept while nobody reads; 0: none.
  // The option attach.scrollback: bytes to keep.
  static Result<std::size_t> size_of(const job::Options& options);

  explicit Scrollback(std::size_t keep) : keep_(keep) {}

  void put(const io::Batch& batch);
  // Keeps output as if somebody read from here on, though nobody does yet.
  void wait_for_reader(bool waits) { waits_ = waits; }
  [[nodiscard]] std::size_t size() const { return size_; }  // bytes, with what each piece costs
  // The last lines as text of about `most` bytes; `labels`: with the rank before each line.
  [[nodiscard]] std::string text(std::size_t most, bool labels) const;

 private:
  [[nodiscard]] std::size_t most() const { return readers_.empty() && !waits_ ? keep_ : std::max(keep_, kQueue); }
  void shorten();
  void drop_first(std::size_t end);
  [[nodiscard]] const Piece& piece(std::uint64_t number) const { return pieces_[number - first_]; }
  [[nodiscard]] std::uint64_t last() const { return first_ + pieces_.size(); }  // behind the last one

  std::size_t keep_;
  std::deque<Piece> pieces_;  // numbers first_, first_ + 1, ...
  std::uint64_t first_ = 0;
  std::size_t first_offset_ = 0;  // bytes of the first one that are gone
  std::size_t size_ = 0;
  std::uint64_t gone_ = 0;  // bytes that were dropped
  bool waits_ = false;
  std::vector<Reader*> readers_;
};

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
    // The job's exit code if it is certain: all tasks have ended, and nothing else has failed. None: it is not
    // certain yet.
    std::function<std::optional<int>()> code_of_tasks;
  };

  // `keep`: bytes of output that are kept for later viewers.
  Viewers(std::size_t keep, Link link) : kept_(keep), link_(std::move(link)) {}

  // ---- where who has started the job follows it to another leader: `attach` with `follows`
  // The follower is waited for. `on_room`: there is room again for what full() has held up.
  void await_follower(std::function<void()> on_room);
  // A line of the shells, for the follower, which may come later.
  void message(std::string line);
  // More of one of the leader's reports (LaunchReport::channel).
  void report(const std::string& report, std::string_view text);
  [[nodiscard]] bool awaits_follower() const { return awaits_; }
  void give_up_follower();
  [[nodiscard]] bool is_follower(ClientId client) const { return follower_ == client; }
  // The output stops here: nothing that a follower has not had may be dropped.
  [[nodiscard]] bool full() const override;

  // The job's tasks are ranks 0 to `tasks` - 1. `files`: files that get the output instead, by the streams' names.
  void attach(ClientId client, const control::ControlRequest& request, std::uint64_t tasks,
              const Json& files = Json::object());
  void has_room(ClientId client, std::uint64_t id);
  void gone(ClientId client);
  // The job's exit code may be known now.
  void look() { serve_all(); }
  // The job's exit code is known: each viewer that has all output gets it; a follower with the text of the report.
  void ended(int code, std::string report = {});
  // The last of what is kept; see Scrollback::text().
  [[nodiscard]] std::string text(std::size_t most, bool labels) const { return kept_.text(most, labels); }
  // Whether a viewer still has to get something.
  [[nodiscard]] bool any() const { return !viewers_.empty(); }

  void put(const io::Batch& batch) override;
  void all_out() override;

 private:
  struct Viewer {
    Viewer(Scrollback& kept, Scrollback::Wanted wanted, std::size_t cut)
        : reader(kept, std::move(wanted)), least(cut) {}
    Scrollback::Reader reader;
    bool follows = false;
    std::size_t least;   // bytes that it can take at once: a longer line is cut, and a shorter one waits for room
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
  void send_reports(const Key& key);
  void report_missed(const Key& key, Viewer& viewer);
  void note_room();

  Scrollback kept_;
  Link link_;
  bool awaits_ = false;
  std::optional<ClientId> follower_;                         // the follower, once it has come
  std::vector<std::string> messages_;                        // lines for the follower, until it comes
  std::deque<std::pair<std::string, std::string>> reports_;  // for the follower: what it has not had, in pieces
  std::function<void()> on_room_;                            // if it is waited for, or was
  mutable bool was_full_ = false;
  std::map<Key, std::unique_ptr<Viewer>> viewers_;
  bool is_all_out_ = false;
  std::optional<int> code_;
  bool has_ended_ = false;  // code_ is final
  std::string report_;
};

// How viewers are reached: by the leader's server of front ends.

// `server`: returns null while there is none; then all output is dropped. `code_of_tasks`: see Viewers::Link.
Viewers::Link viewer_link(const std::function<control::ControlServer*()>& server,
                          std::function<std::optional<int>()> code_of_tasks);

}  // namespace nacre::plugins
