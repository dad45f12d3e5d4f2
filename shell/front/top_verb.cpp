// SPDX-License-Identifier: Apache-2.0
//
// nacre top; see nacre-top(1).
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/print.hpp"
#include "base/process_stat.hpp"
#include "base/signals.hpp"
#include "cli/command_line.hpp"
#include "event/clock.hpp"
#include "front/job_verb.hpp"
#include "front/top_screen.hpp"
#include "front/top_view.hpp"
#include "front/verbs.hpp"

namespace nacre::front {
namespace {

constexpr event::Seconds kWorthShowing{3};  // without an answer: a shell that is late makes it 2
constexpr double kDefaultDelay = 2;         // seconds

// The signals that end the program, and SIGWINCH, as a descriptor; while it lives they are blocked.
class SignalDescriptor {
 public:
  static constexpr std::initializer_list<int> kSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
  SignalDescriptor() : blocked_(kSignals) {
    sigset_t these;
    ::sigemptyset(&these);
    for (int each : kSignals) ::sigaddset(&these, each);
    descriptor_ = UniqueFd(::signalfd(-1, &these, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  [[nodiscard]] int get() const { return descriptor_.get(); }
  // One that ends the program, if it has come since.
  std::optional<int> ending() {
    signalfd_siginfo each{};
    while (::read(descriptor_.get(), &each, sizeof each) == sizeof each) {
      auto signum = static_cast<int>(each.ssi_signo);
      if (signum != SIGWINCH && !ignores_signal(signum)) return signum;
    }
    return std::nullopt;
  }

 private:
  SignalsBlocked blocked_;
  UniqueFd descriptor_;
};

// Why the program stops looking at the job: the job has ended, a signal has come, or (neither) it has looked often
// enough.
struct Over {
  std::optional<int> code;
  std::optional<int> signal;
  std::string cause = {};
};

class Top final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::one);
    verb_->add_option("-d,--delay", delay_text_, "Time from one look to the next (default: 2 s)")
        ->option_text("SECONDS")
        ->check(parse_delay);
    verb_->add_number("-n,--count", count_, "Look COUNT times", {1, UINT32_MAX})->option_text("COUNT");
    verb_->add_flag("--once", once_, "Print one table, as without a terminal");
    verb_->add_flag("--tasks", tasks_, "A row for each task of all nodes");
    verb_->add_flag("--gpu", gpus_, "Ask for GPUs too, by nvidia-smi and rocm-smi of the nodes");
    add_reach();
  }

 private:
  Result<int> run_verb() override {
    double delay = kDefaultDelay;
    if (!delay_text_.empty()) delay = TRY(parse_delay(delay_text_));
    job_ = TRY(led_job());
    if (job_->entry.ended())
      return invalid(fmt::format("job {} has ended; `nacre report {}` prints how", id(), id()));
    if (once_) count_ = 1;
    view_.emplace(tasks_ ? TopView::Rows::tasks : TopView::Rows::nodes, delay, gpus_);
    bool is_live = !json_ && !once_ && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
    if (!is_live && !json_ && count_ == 0) count_ = 1;
    feed_.emplace(TRY(reach_job(*job_)), gpus_);
    Over over = TRY(is_live ? live() : print());
    if (over.signal) ::raise(*over.signal);
    if (over.code && (json_ || !quiet_)) print_end(over);
    return 0;
  }

  [[nodiscard]] std::string id() const { return job_->entry.id.f58_plain(); }

  void print_end(const Over& over) const {
    if (json_) {
      Json line{{"timestamp", event::wall_clock()}, {"id", id()}, {"state", "ended"}, {"code", *over.code}};
      if (!over.cause.empty()) line["cause"] = over.cause;
      return print_out("{}\n", dump_json(line));
    }
    print_out("job {} has ended with exit code {}{}{}\n", id(), *over.code, over.cause.empty() ? "" : ": ",
              over.cause);
  }

  // Without a terminal.
  Result<Over> print() {
    for (;;) {
      CHECK_OK(ask_if_time());
      pollfd link{feed_->client().receives_from(), POLLIN, 0};
      CHECK_OK(wait_for(&link, 1));
      std::uint64_t before = taken_;
      if (auto over = TRY(take())) return *over;
      if (taken_ != before) {
        print_out(json_ ? dump_json(model_.json(tasks_)) + '\n' : view_->text(model_));
        CHECK_OK(flush_out());
        if (taken_ == count_) return Over{};
      }
      auto since = feed_->waiting_since();
      if (since && event::clock_now() - *since >= feed_->client().answer_time())
        return Error{ETIMEDOUT,
                     fmt::format("job {}: its leader, process {} on {}, does not answer within {:g} s", id(),
                                 job_->entry.pid, job_->entry.place.host, feed_->client().answer_time().count())};
    }
  }

  Result<Over> live() {
    SignalDescriptor signals;
    TopScreen screen = TRY(TopScreen::open());
    for (;;) {
      CHECK_OK(ask_if_time());
      auto since = feed_->waiting_since();
      bool is_long = since && event::clock_now() - *since >= kWorthShowing;
      view_->set_waiting(is_long ? std::optional((event::clock_now() - *since).count()) : std::nullopt);
      TopScreen::Size size = screen.size();
      screen.draw(view_->screen(model_, size.width, size.height));
      std::array<pollfd, 3> all{
          {{feed_->client().receives_from(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}, {signals.get(), POLLIN, 0}}};
      CHECK_OK(wait_for(all.data(), all.size()));
      if (auto signal = signals.ending()) return Over{{}, signal};
      while (auto key = screen.key()) {
        if (!view_->press(*key, model_, size.height)) return Over{};
      }
      if ((all[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return Error{EIO, "the terminal has gone"};
      if (auto over = TRY(take())) return *over;
      if (count_ != 0 && taken_ >= count_) return Over{};
    }
  }

  Result<void> ask_if_time() {
    event::Seconds now = event::clock_now();
    if (feed_->waiting_since() || (asked_ && now < *asked_ + event::Seconds(view_->delay()))) return {};
    asked_ = now;
    auto asked = feed_->ask();
    if (!asked && asked.error().code != ECONNRESET) return asked;  // take() notices the end of the link as well
    return {};
  }

  // Waits until one of these is ready, it is time to ask again, or the time without an answer has to be shown.
  Result<void> wait_for(pollfd* all, std::size_t count) {
    event::Seconds now = event::clock_now();
    event::Seconds until =
        feed_->waiting_since() ? now + event::Seconds(1) : *asked_ + event::Seconds(view_->delay());
    double left = std::max((until - now).count(), 0.0);
    int ready = ::poll(all, count, static_cast<int>(std::ceil(left * 1000)));
    if (ready < 0 && errno != EINTR) return system_error(errno, "poll");
    return {};
  }

  // Takes what the leader has sent. Returns the end of the job, if it has come.
  Result<std::optional<Over>> take() {
    auto sample = feed_->take();
    if (feed_->code()) return std::optional(Over{feed_->code(), {}});
    if (!sample) {
      if (sample.error().code != ECONNRESET) return std::move(sample).error();
      return link_ended();
    }
    if (!*sample) return std::optional<Over>();
    model_.take(**std::move(sample), event::wall_clock());
    taken_ += 1;
    return std::optional<Over>();
  }

  // Reads from the list how the job has ended, or connects again.
  Result<std::optional<Over>> link_ended() {
    record::Listed now = TRY(end_in_list(*job_, std::nullopt));
    if (!now.entry.ended()) {
      auto client = reach_job(now);
      if (client) {
        feed_.emplace(*std::move(client), gpus_);
        asked_.reset();
        return std::optional<Over>();
      }
      if (!may_have_ended(client.error())) return std::move(client).error();
      now = TRY(end_in_list(*job_, client.error()));
    }
    const record::EntryEnd& end = *now.entry.end;
    return std::optional(Over{end.code, {}, end.vanished ? end.cause : ""});
  }

  std::string delay_text_;
  std::uint64_t count_ = 0;  // 0: until the job ends
  bool once_ = false;
  bool tasks_ = false;
  bool gpus_ = false;
  std::optional<record::Listed> job_;
  std::optional<TopFeed> feed_;
  std::optional<TopView> view_;
  TopModel model_;
  std::uint64_t taken_ = 0;  // samples
  std::optional<event::Seconds> asked_;
};

}  // namespace

VerbPtr make_top() { return std::make_unique<Top>(); }

}  // namespace nacre::front
