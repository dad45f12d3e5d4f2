// SPDX-License-Identifier: Apache-2.0
//
// What `nacre attach` does once it has a link to the leader: output comes out here, until the job's exit code has
// come, the link ends, or the user leaves. The leader gets credit only for what this process's own readers have
// taken.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/client.hpp"
#include "event/loop.hpp"
#include "front/attach_input.hpp"
#include "io/destination.hpp"
#include "io/fd_sink.hpp"

namespace nacre::front {

class AttachView {
 public:
  struct Options {
    Json request;               // the arguments of `attach`
    bool json = false;          // lines of JSON, all to standard output
    bool label = false;         // the rank before each line
    bool tells_before = false;  // a line for what is not shown of the output before
    bool quiet = false;
    enum class Input { none, own, take } input = Input::none;  // of the job
  };
  enum class How { ended, left, link_lost };
  struct End {
    How how = How::link_lost;
    int code = 0;          // of the job, if it has ended
    bool has_all = false;  // all output of the job has come
  };

  static Result<std::unique_ptr<AttachView>> create(control::Client client, Options options);
  AttachView(const AttachView&) = delete;
  AttachView& operator=(const AttachView&) = delete;

  // An error: the leader has refused, or standard output cannot be written to.
  Result<End> run();
  // A line of this program's own; `event`: the same for --json.
  void notice(const std::string& text, std::string_view event, const Json& context);

 private:
  AttachView(control::Client client, Options options) : client_(std::move(client)), options_(std::move(options)) {}

  Result<void> open();
  Result<void> watch_signals();
  void open_input();
  void begin_view();
  Result<void> open_sink(int fd, const std::string& name, std::unique_ptr<io::Destination>& destination);
  void exchange();
  void await();
  void take(control::FromLeader frame);
  void show(const control::StreamData& data);
  void take_part(const Json& part);
  void take_answer(const control::Answer& answer);
  void give_credit();
  void fail(const Error& why);
  [[nodiscard]] io::Destination& destination(io::Stream stream);

  control::Client client_;
  Options options_;
  std::unique_ptr<event::Loop> loop_;
  std::vector<event::SignalWatcher> signals_;
  std::optional<event::Poll> receives_, sends_;
  std::unique_ptr<io::Destination> out_, err_;  // no err_: both streams go to out_
  std::map<std::pair<std::uint32_t, io::Stream>, io::Source> sources_;
  std::unique_ptr<AttachInput> input_;
  std::uint64_t id_ = 0;          // of the request; 0: it has not been sent
  std::uint64_t uncredited_ = 0;  // bytes
  std::size_t ended_streams_ = 0;
  std::optional<End> end_;
  std::optional<Error> failure_;
};

}  // namespace nacre::front
