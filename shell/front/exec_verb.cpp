// SPDX-License-Identifier: Apache-2.0
//
// nacre exec; see nacre-exec(1).

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/print.hpp"
#include "base/program.hpp"
#include "cli/command_line.hpp"
#include "control/client.hpp"
#include "event/clock.hpp"
#include "exits/policy.hpp"
#include "exits/record.hpp"
#include "front/job_verb.hpp"
#include "front/table.hpp"
#include "front/terminal_session.hpp"
#include "front/verbs.hpp"
#include "io/batch.hpp"
#include "io/folder.hpp"
#include "io/terminal.hpp"
#include "value/duration.hpp"

namespace nacre::front {

// ---- exec output ------------------------------------------------------------------------
//
// How `nacre exec` prints what its commands write: as it comes, in lines with the name of the writer, folded while
// it comes, folded at the end, or as JSON.

// Where a command runs: a shell, or a task that it runs beside.
struct ExecTarget {
  std::uint32_t shell = 0;
  std::string host;
  std::optional<std::uint32_t> rank;
};

namespace {

constexpr std::string_view kRule = "---------------";

// Several shells of one host are told apart.
std::vector<std::string> names_of(const std::vector<ExecTarget>& targets) {
  std::map<std::string, int> count;
  for (const ExecTarget& each : targets) ++count[each.host];
  std::vector<std::string> out;
  for (const ExecTarget& each : targets) {
    if (each.rank)
      out.push_back(fmt::format("{}", *each.rank));
    else
      out.push_back(count[each.host] == 1 ? each.host : fmt::format("{}/{}", each.host, each.shell));
  }
  return out;
}

}  // namespace

class ExecOutput : Noncopyable {
 public:
  enum class Mode { raw, lines, live, at_end, json };
  // Folded at the end: how many bytes are kept. When there are more they are printed, and the rest is folded by
  // itself.
  static constexpr std::size_t kMostKept = std::size_t{64} << 20;

  ExecOutput(Mode mode, std::vector<ExecTarget> targets)
      : mode_(mode),
        targets_(std::move(targets)),
        names_(names_of(targets_)),
        folder_(targets_.size(), [this](const auto& ids) { return names(value::Idset::of(ids)); }) {
    streams_.resize(targets_.size() * io::kStreams.size());
    for (std::size_t target = 0; target < targets_.size(); ++target) {
      for (io::Stream stream : io::kStreams) {
        Stream& each = stream_of(target, stream);
        each.source = {static_cast<std::uint32_t>(target), stream, names_[target] + ": "};
        each.lines.emplace(each.source, io::Buffering::line);
      }
    }
  }

  // `target`: index of the targets. `time`: seconds since the Epoch.
  void add(std::size_t target, io::Stream stream, std::string_view bytes, double time) {
    if (mode_ == Mode::raw) return print(stream, bytes);
    Stream& of = stream_of(target, stream);
    if (mode_ != Mode::at_end) return of.lines->add(bytes, time, [this](const io::Batch& batch) { take(batch); });
    of.kept += bytes;
    kept_ += bytes.size();
    if (kept_ > kMostKept) print_kept();
  }

  // it writes no more
  void end(std::size_t target, double time) {
    if (mode_ == Mode::raw || mode_ == Mode::at_end) return;
    for (io::Stream stream : io::kStreams) {
      Stream& of = stream_of(target, stream);
      of.lines->end(time, [this](const io::Batch& batch) { take(batch); });
      if (mode_ == Mode::live) folder_.end(of.source, [this](const io::Batch& batch) { print_lines(batch); });
    }
  }

  void expire(double time) {
    folder_.expire(time, [this](const io::Batch& batch) { print_lines(batch); });
  }

  // when to call expire()
  [[nodiscard]] std::optional<double> deadline() const { return folder_.deadline(); }

  void finish() {
    for (std::size_t target = 0; target < targets_.size(); ++target) end(target, 0);
    print_kept();
  }

  // The names of several targets as one: hosts as "n[0-2]", ranks as "0-2".
  [[nodiscard]] std::string names(const value::Idset& targets) const {
    value::Idset ranks;
    std::string hosts;
    for (value::Idset::Id target : targets.ids()) {
      if (targets_[target].rank) ranks.insert(*targets_[target].rank);
      hosts += (hosts.empty() ? "" : ",") + names_[target];
    }
    if (!ranks.empty()) return ranks.str(true);
    auto list = value::Hostlist::parse(hosts);
    return list ? list->str() : hosts;
  }

  [[nodiscard]] const std::vector<ExecTarget>& targets() const { return targets_; }

 private:
  struct Stream {
    io::Source source;
    std::optional<io::Assembler> lines;
    std::string kept;
  };
  [[nodiscard]] Stream& stream_of(std::size_t target, io::Stream stream) {
    return streams_[target * io::kStreams.size() + static_cast<std::size_t>(stream)];
  }

  void print(io::Stream stream, std::string_view bytes) {
    if (stream == io::Stream::out) return print_out(bytes);
    static_cast<void>(flush_out());  // an error comes up at the end
    print_err(bytes);
  }

  void print_lines(const io::Batch& batch) {
    const std::string& label = batch.source->label;
    std::string room;
    std::string out;
    std::string_view rest = batch.joined(room);
    for (bool continues = batch.continues; !rest.empty(); continues = false) {
      std::size_t end = rest.find('\n');
      std::string_view line = rest.substr(0, end);
      if (!continues) out += label;
      out += line;
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      bool is_open = end == std::string_view::npos && batch.open;
      if (!is_open) out += '\n';
    }
    print(batch.source->stream, out);
  }

  void print_json(const io::Batch& batch) {
    const ExecTarget& target = targets_[batch.source->rank];
    std::string room;
    Json out{{"timestamp", batch.time},
             {"name", "output"},
             {"context",
              {{"stream", io::name_of(batch.source->stream)},
               {"host", target.host},
               {"shell", target.shell},
               {"data", std::string(batch.joined(room))}}}};
    if (target.rank) out["context"]["rank"] = *target.rank;
    print_out("{}\n", dump_json(out));
  }

  void take(const io::Batch& batch) {
    if (mode_ == Mode::live) return folder_.add(batch, [this](const io::Batch& folded) { print_lines(folded); });
    if (mode_ == Mode::json) return print_json(batch);
    print_lines(batch);
  }

  void print_kept() {
    for (io::Stream stream : io::kStreams) print_kept(stream);
    kept_ = 0;
  }

  // Prints equal outputs once, in the order of the first of their targets.
  void print_kept(io::Stream stream) {
    std::map<std::string, value::Idset> by_text;
    for (std::size_t target = 0; target < targets_.size(); ++target) {
      std::string text = std::exchange(stream_of(target, stream).kept, {});
      if (!text.empty()) by_text[std::move(text)].insert(static_cast<value::Idset::Id>(target));
    }
    std::vector<std::pair<value::Idset, std::string_view>> all;
    for (const auto& [text, targets] : by_text) all.emplace_back(targets, text);
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return *a.first.first() < *b.first.first(); });
    for (const auto& [targets, text] : all) {
      std::string count = targets.size() > 1 ? fmt::format(" ({})", targets.size()) : "";
      print(stream, fmt::format("{}\n{}{}\n{}\n{}{}", kRule, names(targets), count, kRule, text,
                                text.ends_with('\n') ? "" : "\n"));
    }
  }

  Mode mode_;
  std::vector<ExecTarget> targets_;
  std::vector<std::string> names_;  // of targets
  std::vector<Stream> streams_;     // of the first target, of the second, ...
  io::Folder folder_;
  std::size_t kept_ = 0;  // bytes
};

// ---- exec run ---------------------------------------------------------------------------
//
// One `nacre exec`, from its request to its exit code: it passes output and input on, and ends the commands on
// Ctrl-C, when the time is over, or when one of them fails.

struct ExecRequest {
  Json arguments;                        // of the request
  std::optional<ExecOutput::Mode> mode;  // none: raw for one target, lines for several
  bool json = false;
  bool quiet = false;
  bool input = false;
  bool kill_on_failure = false;
  std::optional<event::Seconds> limit;
  exits::Policy::Kind policy = exits::Policy::Kind::max;
};

namespace {

constexpr std::uint64_t kExecCredit = std::uint64_t{1} << 20;  // bytes of output that are on their way
constexpr int kSignalCode = 128;                               // and the signal's number
constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

}  // namespace

class ExecRun {
 public:
  ExecRun(control::Client client, ExecRequest request) : client_(std::move(client)), request_(std::move(request)) {}

  // The exit code.
  Result<int> run() {
    CHECK_OK(watch_signals());
    reads_input_ = request_.input;
    id_ = client_.begin("exec", request_.arguments, kExecCredit);
    while (!is_over_) CHECK_OK(wait());
    if (refused_) return *refused_;
    if (output_) output_->finish();
    report();
    CHECK_OK(flush_out());
    return code();
  }

 private:
  Result<void> watch_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (int signum : kSignals) ::sigaddset(&set, signum);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    return signals_ ? Result<void>() : system_error(errno, "cannot wait for signals");
  }

  Result<void> wait() {
    bool wants_input = reads_input_ && (!held_input_.empty() || client_.may_send(id_) > 0);
    std::array<pollfd, 4> polled{{{client_.receives_from(), POLLIN, 0},
                                  {client_.has_unsent() ? client_.sends_to() : -1, POLLOUT, 0},
                                  {signals_.get(), POLLIN, 0},
                                  {wants_input && held_input_.empty() ? STDIN_FILENO : -1, POLLIN, 0}}};
    if (::poll(polled.data(), polled.size(), milliseconds_left()) < 0 && errno != EINTR)
      return system_error(errno, "cannot wait");
    if (polled[2].revents != 0) CHECK_OK(take_signals());
    if (wants_input && (polled[3].revents != 0 || !held_input_.empty())) CHECK_OK(read_input());
    if (deadline_ && event::clock_now() >= *deadline_) {
      deadline_.reset();
      end(exits::Record::Kind::over_time);
    }
    Result<void> exchanged = client_.exchange();
    CHECK_OK(take_frames());
    if (output_) output_->expire(event::wall_clock());
    CHECK_OK(flush_out());
    if (is_over_ || exchanged) return {};
    Error why = exchanged.error();
    why.message = "the leader has gone, and what was started with it: " + why.message;
    return why;
  }

  Result<void> take_frames() {
    while (auto frame = TRY(client_.take())) {
      if (auto* answer = std::get_if<control::Answer>(&*frame))
        CHECK_OK(take(*answer));
      else if (auto* data = std::get_if<control::StreamData>(&*frame))
        CHECK_OK(take(*data));
    }
    return {};
  }

  Result<void> take(const control::Answer& answer) {
    if (answer.id != id_) return {};  // the answer to exec-end or exec-signal: the processes may have ended before
    if (answer.error) {
      refused_ = *answer.error;
      is_over_ = true;
      return {};
    }
    if (answer.more) return in("what the leader answers", take_part(answer.value));
    is_over_ = true;
    return {};
  }

  Result<void> take_part(const Json& part) {
    JsonAt at = JsonAt::root(part);
    if (auto targets = TRY(at.find("targets"))) {
      for (const JsonAt& each : TRY(targets->elements())) {
        ExecTarget target;
        target.shell = static_cast<std::uint32_t>(TRY(TRY(each.at("shell")).integer(0, UINT32_MAX)));
        target.host = printable(TRY(TRY(each.at("host")).string()), 255);
        if (auto rank = TRY(each.find("rank")))
          target.rank = static_cast<std::uint32_t>(TRY(rank->integer(0, UINT32_MAX)));
        index_[{target.shell, target.rank}] = targets_.size();
        targets_.push_back(std::move(target));
      }
    }
    if (auto lost = TRY(at.find("lost"))) {  // the last part with targets
      using Mode = ExecOutput::Mode;
      Mode mode =
          request_.json ? Mode::json : request_.mode.value_or(targets_.size() > 1 ? Mode::lines : Mode::raw);
      output_.emplace(mode, std::exchange(targets_, {}));
      if (request_.limit) deadline_ = event::clock_now() + *request_.limit;
      auto hosts = TRY(lost->strings());
      for (std::string& each : hosts) each = printable(each, 255);
      if (!hosts.empty() && !request_.quiet)
        print_err("nacre exec: not on {}, which the job has lost\n", fmt::join(hosts, ", "));
    }
    if (auto exits = TRY(at.find("exits"))) {
      for (const JsonAt& each : TRY(exits->elements())) CHECK_OK(take_exit(each.json()));
    }
    return {};
  }

  Result<void> take_exit(const Json& row) {
    auto index = index_of(row);
    JsonAt at = JsonAt::root(row);
    auto record = TRY(exits::Record::parse(TRY(TRY(at.at("record")).string())));
    std::string why;
    if (auto message = TRY(at.find("message"))) why = printable(TRY(message->string()), 1024);
    if (!index) return at.error("of no target");
    using Kind = exits::Record::Kind;
    bool has_failed = record.kind() != Kind::ended || !record.status()->success();
    if (ended_as_ && record.kind() == Kind::ended && has_failed)
      record = *ended_as_ == Kind::over_time ? exits::Record::over_time(*record.status())
                                             : exits::Record::victim(record.status());
    auto target = static_cast<value::Idset::Id>(*index);
    output_->end(*index, event::wall_clock());
    outcomes_.add(value::Idset::range(target, target), record);
    if (request_.json) {
      Json context = row;
      context["record"] = record.str();
      print_out("{}\n", dump_json({{"timestamp", event::wall_clock()}, {"name", "exits"}, {"context", context}}));
    }
    if (has_failed) failures_[{record.str(), why}].insert(target);
    if (has_failed && request_.kill_on_failure) end(Kind::victim);
    return {};
  }

  Result<void> take(const control::StreamData& data) {
    auto index = index_of(data.members);
    if (data.id != id_ || !index) return {};
    io::Stream stream = data.stream == "stderr" ? io::Stream::err : io::Stream::out;
    output_->add(*index, stream, data.data, event::wall_clock());
    CHECK_OK(flush_out());
    client_.grant(id_, std::max<std::uint64_t>(data.data.size(), 1));
    return {};
  }

  // The first signal ends what was started; after a second one nobody waits for that any more.
  Result<void> take_signals() {
    signalfd_siginfo got{};
    while (::read(signals_.get(), &got, sizeof got) == sizeof got) {
      auto signum = static_cast<int>(got.ssi_signo);
      if (std::exchange(interrupted_, signum) != 0)
        return Error{ECANCELED, "interrupted: what was started is being ended, and is not waited for"};
      end(exits::Record::Kind::victim);
    }
    return {};
  }

  Result<void> read_input() {
    if (held_input_.empty()) {
      std::string buffer(std::min<std::uint64_t>(client_.may_send(id_), std::size_t{32} << 10), '\0');
      if (buffer.empty()) return {};
      ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
      if (got <= 0) {
        reads_input_ = false;
        client_.put_end({id_, "stdin"});
        return got == 0 ? Result<void>() : system_error(errno, "standard input");
      }
      held_input_ = buffer.substr(0, static_cast<std::size_t>(got));
    }
    if (client_.put({id_, "stdin", held_input_, Json::object()})) held_input_.clear();
    return {};
  }

  void end(exits::Record::Kind why) {
    if (std::exchange(ended_as_, ended_as_.value_or(why))) return;
    client_.begin("exec-end", {{"exec", id_}}, 0);
  }

  // Milliseconds, as poll(2) has them; -1: for ever.
  [[nodiscard]] int milliseconds_left() const {
    std::optional<double> left;
    auto earlier = [&](double seconds) { left = std::min(left.value_or(seconds), std::max(seconds, 0.0)); };
    if (deadline_) earlier(deadline_->count() - event::clock_now().count());
    if (auto due = output_ ? output_->deadline() : std::nullopt) earlier(*due - event::wall_clock());
    if (!left) return -1;
    constexpr double kMilliseconds = 1000;
    constexpr double kMost = 3600 * kMilliseconds;
    return static_cast<int>(std::min(*left * kMilliseconds + 1, kMost));
  }

  [[nodiscard]] std::optional<std::size_t> index_of(const Json& members) const {
    auto number = [&](const char* name) -> std::optional<std::uint32_t> {
      auto found = members.find(name);
      if (found == members.end() || !found->is_number_unsigned()) return std::nullopt;
      return found->get<std::uint32_t>();
    };
    auto found = index_.find({number("shell").value_or(UINT32_MAX), number("rank")});
    if (!output_ || found == index_.end()) return std::nullopt;
    return found->second;
  }

  // Reports the targets that have failed alike together.
  void report() {
    if (request_.quiet || request_.json || !output_) return;
    static_cast<void>(flush_out());
    for (const auto& [how, targets] : failures_) {
      auto record = exits::Record::parse(how.first);
      std::string what = how.second;
      using Kind = exits::Record::Kind;
      if (record && record->kind() == Kind::lost) what = "lost";
      if (record && record->status() && record->kind() != Kind::not_started) what = record->status()->str();
      if (record && record->kind() == Kind::over_time) what = "over the time limit: " + what;
      if (record && record->kind() == Kind::victim) what = "ended: " + what;
      print_err("nacre exec: {}: {}\n", output_->names(targets), what);
    }
  }

  [[nodiscard]] int code() const {
    if (interrupted_ != 0) return kSignalCode + interrupted_;
    return exits::Policy(request_.policy, 0).code(outcomes_);
  }

  control::Client client_;
  ExecRequest request_;
  std::uint64_t id_ = 0;
  UniqueFd signals_;
  std::vector<ExecTarget> targets_;                                                      // while they come
  std::map<std::pair<std::uint32_t, std::optional<std::uint32_t>>, std::size_t> index_;  // by shell and rank
  std::optional<ExecOutput> output_;
  exits::Outcomes outcomes_;                                              // by index
  std::map<std::pair<std::string, std::string>, value::Idset> failures_;  // record and why: indices
  std::optional<exits::Record::Kind> ended_as_;  // set when this has ended them: how those count that still ran
  std::optional<event::Seconds> deadline_;
  int interrupted_ = 0;  // the signal
  std::string held_input_;
  bool reads_input_ = false;
  bool is_over_ = false;
  std::optional<Error> refused_;
};

// ---- exec terminal ----------------------------------------------------------------------
//
// `nacre exec --pty`: one command on a terminal of its node, joined to this one.

namespace {

constexpr int kBySignal = 128;  // and the signal's number

struct CommandEnd {
  std::string host;
  exits::Record record;
  std::string message;
};

Result<void> take_end(const Json& part, std::optional<CommandEnd>& end) {
  auto exits = TRY(JsonAt::root(part).find("exits"));
  if (!exits) return {};
  for (const JsonAt& each : TRY(exits->elements())) {
    std::string host = printable(TRY(TRY(each.at("host")).string()), 255);
    auto record = TRY(exits::Record::parse(TRY(TRY(each.at("record")).string())));
    std::string message;
    if (auto why = TRY(each.find("message"))) message = printable(TRY(why->string()), 1024);
    end = CommandEnd{std::move(host), record, std::move(message)};
  }
  return {};
}

// If a command has exited by itself it has printed all that it had to.
int report(const CommandEnd& end, bool quiet) {
  using Kind = exits::Record::Kind;
  std::string what = end.message;
  if (end.record.kind() == Kind::lost) what = "lost";
  bool is_killed = end.record.status() && end.record.status()->is_signal();
  if (end.record.kind() == Kind::ended && is_killed) what = end.record.status()->str();
  if (!what.empty() && !quiet) print_err("nacre exec: {}: {}\n", end.host, what);
  return exits::Policy::max().code_of(end.record);
}

}  // namespace

// `arguments`: those of the request `exec`, without size. Returns the exit code.
Result<int> exec_on_terminal(control::Client client, Json arguments, bool quiet) {
  std::optional<CommandEnd> ended;
  TerminalSession session(client,
                          {"exec", std::move(arguments), [&](const Json& part) { return take_end(part, ended); }});
  TerminalSession::End end = TRY(session.run());
  using How = TerminalSession::How;
  switch (end.how) {
    case How::answered: break;
    case How::left:
      if (!quiet) print_err("nacre exec: left; the command is being ended\n");
      return kBySignal + SIGHUP;
    case How::hung_up: return kBySignal + SIGHUP;
    case How::signalled: return kBySignal + end.signum;
    case How::link_lost: return Error{ECONNRESET, "the leader has gone, and what was started with it: " + end.why};
  }
  if (!ended) return Error{EPROTO, "the leader does not report how the command has ended"};
  return report(*ended, quiet);
}

// ---- exec verb --------------------------------------------------------------------------

namespace {

constexpr const char* kOneTarget =
    "--pty: a terminal is that of one command: name one rank (-r), host (-w) or shell (--shells)";
constexpr int kUsageError = 2;  // exit code

class Exec final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::none);
    verb_->prefix_command();
    verb_->add_option("-r,--ranks", ranks_, "Beside these tasks, in their environment: 0-3,7")
        ->option_text("RANKS");
    verb_->add_option("--shells", shells_, "On the nodes of these shells: 0-3,7")->option_text("IDS");
    verb_->add_option("-w,--hosts", hosts_, "On these hosts: n[0-3]")->option_text("HOSTS");
    verb_->add_option("-x,--exclude", exclude_, "Not on these hosts")->option_text("HOSTS");
    verb_->add_flag("-l,--label", labels_, "Begin each line with the host, or with -r the rank");
    verb_->add_flag("-N,--no-label", plain_, "Print what comes, as it comes");
    verb_->add_flag("-b,--fold", folds_, "Print equal outputs once, at the end");
    verb_->add_flag("-L,--fold-live", folds_live_, "Print equal lines once, while they come");
    verb_->at_most_one({"--label", "--no-label", "--fold", "--fold-live"});
    verb_->add_flag("-S", largest_, "Exit with the largest code (the default)");
    verb_->add_option("--exit-policy", policy_, "Exit with: max, main, all, main+all or first")
        ->option_text("POLICY")
        ->check(exits::Policy::kind_of)
        ->excludes({"-S"});
    verb_->add_flag("-k,--kill-on-failure", kills_, "End all when one fails");
    verb_->add_option("-u,--time-limit", limit_, "End all after this time")
        ->option_text("DURATION")
        ->check(value::Duration::parse);
    verb_->add_flag("-i,--input", input_, "Pass standard input on to all");
    verb_->add_flag("-d,--detach", detaches_, "Leave when all have started; they end with the job")
        ->excludes({"-i"});
    verb_->add_flag("--pty", pty_, "On a terminal of its node, joined to this one: one command; ~. leaves")
        ->excludes({"-l", "-N", "-b", "-L", "-S", "--exit-policy", "-k", "-u", "-i", "-d", "--json"});
    verb_->add_option("--env", env_, "Set a variable, once or more often")
        ->option_text("NAME=VALUE")
        ->check([](const std::string& text) -> Result<void> {
          if (text.find('=') != std::string::npos && !text.starts_with('=')) return {};
          return invalid(fmt::format("{}: expected NAME=VALUE", in_quotes(text)));
        });
    verb_->add_option("--cwd", cwd_, "Their working directory")->option_text("DIR");
    add_reach();
  }

  Result<void> check_usage() override {
    CHECK_OK(take_words());
    CHECK_OK(check_targets());
    return pty_ ? check_one_target() : Result<void>();
  }

 private:
  Result<void> take_words() {
    words_ = verb_->rest();
    if (!words_.empty() && words_[0] == "--") {
      words_.erase(words_.begin());
    } else if (words_.size() > 1 && words_[1] == "--") {
      names_ = {words_[0]};
      words_.erase(words_.begin(), words_.begin() + 2);
    } else {
      may_begin_with_job_ = words_.size() > 1;
    }
    if (words_.empty()) return invalid("expected a command");
    return {};
  }

  [[nodiscard]] Result<void> check_targets() const {
    if (verb_->count("-r") > 0) CHECK_OK(idset_of("--ranks", ranks_, "rank"));
    if (verb_->count("--shells") > 0) CHECK_OK(idset_of("--shells", shells_, "shell"));
    if (verb_->count("-w") > 0) CHECK_OK(hosts_of("--hosts", hosts_));
    if (verb_->count("-x") > 0) CHECK_OK(hosts_of("--exclude", exclude_));
    return {};
  }

  // The leader checks the rest: which shells are on a host.
  [[nodiscard]] Result<void> check_one_target() const {
    auto ranks = value::Idset::parse(ranks_);
    auto shells = value::Idset::parse(shells_);
    auto hosts = value::Hostlist::parse(hosts_);
    if ((ranks && ranks->size() > 1) || (shells && shells->size() > 1) || (hosts && hosts->names().size() > 1))
      return invalid(kOneTarget);
    return {};
  }

  // A job's name may be that of its command, so a name needs "--" behind it; an id does not.
  [[nodiscard]] bool begins_with_job() {
    if (!may_begin_with_job_) return false;
    auto found = list().find(words_[0]);
    return found && (words_[0] != (*found)->entry.name);
  }

  [[nodiscard]] Json arguments() const {
    Json out{{"command", words_}};
    if (verb_->count("-r") > 0) out["ranks"] = ranks_;
    if (verb_->count("--shells") > 0) out["shells"] = shells_;
    if (verb_->count("-w") > 0) out["hosts"] = hosts_;
    if (verb_->count("-x") > 0) out["exclude"] = exclude_;
    for (const std::string& each : env_) {
      std::size_t at = each.find('=');
      out["env"][each.substr(0, at)] = each.substr(at + 1);
    }
    if (!cwd_.empty()) out["cwd"] = cwd_;
    if (input_) out["stdin"] = true;
    if (detaches_) out["detach"] = true;
    return out;
  }

  Result<int> run_verb() override {
    if (begins_with_job()) {
      names_ = {words_[0]};
      words_.erase(words_.begin());
    }
    record::Listed job = TRY(running_job());
    if (pty_) return run_on_terminal(job);
    ExecRequest request;
    request.arguments = arguments();
    using Mode = ExecOutput::Mode;
    if (plain_) request.mode = Mode::raw;
    if (labels_) request.mode = Mode::lines;
    if (folds_) request.mode = Mode::at_end;
    if (folds_live_) request.mode = Mode::live;
    request.json = json_;
    request.quiet = quiet_;
    request.input = input_;
    request.kill_on_failure = kills_;
    if (!limit_.empty()) {
      auto limit = TRY(value::Duration::parse(limit_));
      if (!limit.is_infinite()) request.limit = event::Seconds(limit.seconds());
    }
    if (!policy_.empty()) request.policy = TRY(exits::Policy::kind_of(policy_));
    ExecRun run(TRY(reach_job(job)), std::move(request));
    return run.run();
  }

  Result<int> run_on_terminal(const record::Listed& job) {
    if (!io::at_terminal()) return Error{ENOTTY, "--pty: standard input or output is not a terminal"};
    bool names_target = verb_->count("-r") + verb_->count("-w") + verb_->count("--shells") > 0;
    if (!names_target && job.entry.shells > 1 && verb_->count("-x") == 0) {
      print_err("nacre exec: {}\n", kOneTarget);
      return kUsageError;
    }
    Json arguments = this->arguments();
    if (auto terminal = own_variable("TERM"); terminal && !arguments["env"].contains("TERM"))
      arguments["env"]["TERM"] = *terminal;
    return exec_on_terminal(TRY(reach_job(job)), std::move(arguments), quiet_);
  }

  std::vector<std::string> words_, env_;
  std::string ranks_, shells_, hosts_, exclude_, policy_, limit_, cwd_;
  bool labels_ = false, plain_ = false, folds_ = false, folds_live_ = false, largest_ = false;
  bool kills_ = false, input_ = false, detaches_ = false, pty_ = false, may_begin_with_job_ = false;
};

}  // namespace

VerbPtr make_exec() { return std::make_unique<Exec>(); }

}  // namespace nacre::front
