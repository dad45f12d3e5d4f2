// SPDX-License-Identifier: Apache-2.0
//
// Carries out a plan of `nacre launch` or `nacre run`: starts shell 0, which starts the others, or srun, which
// starts all; passes on signals and standard input; waits for the end.
#pragma once

#include "exits/job_end.hpp"
#include "front/follow.hpp"
#include "io/sink.hpp"
#include "job/options.hpp"
#include "launch/record.hpp"
#include "task/command.hpp"
#include "task/subprocess.hpp"

namespace nacre::front {

// A report of a job's leader beside the job's output, as with --notify, which goes to a file or descriptor of this
// host. A leader that is this process's child gets a descriptor. Any other leader sends its reports within its
// standard error (launch/record.hpp): this class reads that, takes the reports out, and passes the rest on.
struct LaunchReport {
  std::string option;    // as it was given: "--notify"
  std::string channel;   // the option of the shell
  std::string to;        // a file, or the number of a descriptor
  bool is_path = false;  // `to` is a file, and a leader on this host writes it itself
  bool appends = false;  // behind what the file has
};

// `to` is a file, or a descriptor of this process that is open for writing.
[[nodiscard]] Result<void> check_report_place(const std::string& to);

class LaunchReports : Noncopyable {
 public:
  static constexpr event::Seconds kLastWords{
      1};  // how long other processes may keep the agent's standard error open
  static constexpr event::Seconds kWaitAtEnd{3};  // how long to wait for readers of reports and of standard error

  // Callbacks for those who need a leader's standard error even if no report is wanted; for a leader that is no
  // child.
  struct Watch {
    std::function<std::string(std::string_view)> filter;      // of standard error: returns what is passed on of it
    std::function<std::string()> at_end;                      // what is passed on last
    std::function<void()> on_joined;                          // the job's shells have come together
    std::function<void(std::string_view code)> on_ended;      // the leader leaves: Carriage::kEnded
    std::function<void(std::string_view number)> on_signal;   // the leader has read it: Carriage::kSignal
    std::function<void(std::string_view message)> on_leads;   // another shell leads: Carriage::kLeads
    std::function<void(std::string_view message)> on_wanted;  // it would lead: Carriage::kWanted
    std::function<void(std::string_view shells)> on_half;     // Carriage::kHalf
    bool is_labelled;                                         // CarriageReader has it
  };

  // A report that cannot be written is a warning, and the leader does not send it. `has_child`: the leader is this
  // process's child. `front`: the beginning of its messages.
  static Result<std::unique_ptr<LaunchReports>> create(event::Loop& loop, const std::string& front,
                                                       const std::vector<LaunchReport>& wanted, bool has_child,
                                                       Watch watch = {});

  // To be called before the start: adds descriptors to the command, and options or the carriage to the record.
  void add_to(task::Command& command, launch::LaunchRecord& record) const;
  // Whether the leader's agent needs a stream "stderr" without a line buffer.
  [[nodiscard]] bool is_carried() const { return reader_.has_value(); }
  // Nothing that the leader sends is read now, as nobody reads standard error.
  [[nodiscard]] bool is_held_up() const { return stderr_ && stderr_->full(); }
  // To be called when there is something to read in that stream.
  void on_ready(task::BufferedStream& from);
  // Adds to a report, after this process has begun to follow another leader.
  void go_on(std::string_view channel, std::string_view text);
  // Runs the loop until all is written, but not for longer than kWaitAtEnd.
  void flush();
  // To be called when the agent has exited: runs the loop until all is written, but waits for readers no longer
  // than kWaitAtEnd.
  void finish(const std::function<bool()>& is_complete);

 private:
  struct File {
    std::string option;
    std::string channel;
    std::string name;
    UniqueFd given;                         // the descriptor that a child gets
    std::string path;                       // the path that a child gets: of a FIFO that has no reader yet
    bool appends = false;                   // behind what another leader has written
    std::unique_ptr<io::MessageFile> file;  // the file that this process writes
  };

  LaunchReports(event::Loop& loop, std::string front) : loop_(loop), front_(std::move(front)) {}
  Result<void> open(const LaunchReport& report, bool has_child);
  Result<std::unique_ptr<io::MessageFile>> open_file(UniqueFd fd, const File& of, const std::string& path,
                                                     bool appends);
  Result<void> carry();
  void pass_on(std::string_view bytes);
  void write(std::string_view bytes);  // to standard error
  void deliver(std::string_view channel, std::string_view message);
  void read();

  void warn(const std::string& option, std::string_view why) const;

  event::Loop& loop_;
  std::string front_;
  Watch watch_;
  std::vector<std::unique_ptr<File>> files_;
  launch::Carriage carriage_;
  std::optional<launch::CarriageReader> reader_;
  std::unique_ptr<io::FdSink> stderr_;
  task::BufferedStream* from_ = nullptr;
  bool lost_ = false;  // a loss has been reported
};

struct LaunchPlan {
  launch::LaunchRecord record;                   // shell 0's; for srun without rank, hosts and agent
  std::string leader;                            // shell 0's host; none for srun
  std::optional<std::vector<std::string>> srun;  // its arguments, if it starts the shells
  std::vector<LaunchReport> reports;             // those that the leader sends
  int input = 0;  // the descriptor that the job's input is read from; < 0: see LaunchFeed
  bool verbose = false;
  bool quiet = false;                // nothing but warnings and errors is printed
  bool outlived = false;             // the job goes on if this process goes: on-launcher-lost=go-on
  bool has_own_shell = false;        // the shell is the one that came with this program
  std::optional<FollowPlan> follow;  // if another shell may come to lead the job: how to follow it
  bool in_pod = false;               // this process becomes one of the job's shells; the others begin in other pods
};

// The job detaches as soon as it runs, see nacre-run(1); `options` are its own. An error: it cannot.
Result<void> detach_at_start(const job::Options& options, LaunchPlan& plan);
// Reads the job's own option on-launcher-lost into the plan's `outlived`. An error: there is no launcher that
// counts.
Result<void> read_on_launcher_lost(const job::Options& options, LaunchPlan& plan);

// Reads the job's own option on-leader-lost, which on-lost=replace implies: the leader may change, and this process
// follows it. `label`: the job's output has the rank before each line.
Result<void> read_on_leader_lost(const job::Options& options, bool label, LaunchPlan& plan);

// On a terminal, Ctrl-C and then Ctrl-Z leave the job, which goes on; not if a task has the terminal, or if the job
// cannot be reached then. Call it before the two functions above.
void let_leave(const job::Options& options, LaunchPlan& plan);

// Returns the exit code of shell 0 or of srun, or 128 + N if a signal N ended it, or one of srun's shells before
// all had joined; 1 if the agent failed, or a shell could not join, which is reported on standard error. An error:
// it could not be started.
Result<int> launch(LaunchPlan plan);

// The command line that starts shell 0 or srun.
Result<task::Command> launch_command(const LaunchPlan& plan);

// What `nacre launch` does with a signal. Until the leader has begun to read the jobspec, the first signal that
// ends programs ends the launch. After that signals are passed on to the job, which may handle them as it likes. A
// repeated one ends the job: SIGINT twice within two seconds; SIGTERM, SIGHUP or SIGQUIT twice. SIGINT and then
// SIGTSTP, within the same time, are the wish to leave the job. Pure.
class LaunchSignals {
 public:
  static constexpr double kTwice = exits::JobEnd::kInterruptWindow;  // between two SIGINT that end the job, at most
  // The least time between two SIGTERM, SIGHUP or SIGQUIT that count as two, in seconds: timeout(1) sends SIGTERM
  // both to a process and to its group.
  static constexpr double kApart = 0.1;

  enum class Act {
    pass,    // pass it on to the job
    cancel,  // the leader has not begun to read: end the agent that would start it
    end,     // end the job, whatever it does
    kill     // kill what has not ended yet
  };

  // `now`: seconds of any clock that does not jump. `begun`: the leader has begun to read the jobspec.
  Act on_signal(int signum, double now, bool begun);
  // A stop (Ctrl-Z) at `now` soon after a SIGINT that was passed on: this process leaves the job, which goes on.
  [[nodiscard]] bool leaves(double now) const { return !ended_by_ && interrupted_ && now - *interrupted_ < kTwice; }
  // A signal was passed on, but the leader has not read it: so it ends the job.
  void end_by(int signum);

  // Whether it is one of SIGINT, SIGTERM, SIGHUP and SIGQUIT.
  [[nodiscard]] static bool ends_programs(int signum);
  // The signal by which this process has ended the job, if it has: the exit code is 128 + that.
  [[nodiscard]] std::optional<int> ended_by() const { return ended_by_; }
  // SIGTERM, SIGHUP or SIGQUIT, if the first of its kind came at `since` or later.
  [[nodiscard]] std::optional<int> terminated_since(double since) const;

 private:
  std::optional<double> interrupted_;  // when the last SIGINT came
  std::map<int, double> terminated_;   // the other signals that came, and when each came first
  std::optional<int> ended_by_;
};

// What srun(1) writes to its standard error about the shells of a job that it has started.
class SrunErrors {
 public:
  static constexpr std::size_t kMaxLine = 4096;        // bytes of a line that are looked at
  static constexpr std::size_t kMaxKept = 256U << 10;  // bytes of such lines

  // Bytes of srun's standard error, cut anywhere. Looks for lines that report that tasks of the step, which are
  // shells, have ended with an error: "srun: error: n2: task 2: Exited with exit code 13". Returns what is to be
  // passed on: all but the beginning of what may be such a line.
  std::string take(std::string_view bytes);
  // From now on such lines are kept, and not passed on.
  void keep() { keeps_ = true; }
  // From now on all lines of srun and slurmstepd are kept: this process ends the step.
  void ends_step() { ends_step_ = true; }
  // The lines that were kept, and a line that has not ended.
  [[nodiscard]] std::string kept() const { return kept_; }
  [[nodiscard]] std::string rest() const { return line_; }

  [[nodiscard]] const value::Idset& ended() const { return ended_; }  // the shells that have ended, by those lines

  // The first signal by which a shell has ended: for SIGINT (2) srun reports "Interrupt", or the exit code 130 if
  // the shell has handled it. Only SIGHUP, SIGINT, SIGQUIT and SIGTERM: no other is meant to end a job.
  [[nodiscard]] std::optional<int> signal() const { return signal_; }

 private:
  [[nodiscard]] bool may_be_kept() const;
  bool take_line();

  std::string line_;          // a line that has not ended, up to kMaxLine
  bool passes_line_ = false;  // the rest of this line is passed on
  bool keeps_ = false;
  bool ends_step_ = false;
  std::string kept_;
  value::Idset ended_;
  std::optional<int> signal_;
};

// Whether srun with these arguments puts the number of a task before each line, or $SLURM_LABELIO asks it to.
[[nodiscard]] bool labels_lines(const std::vector<std::string>& arguments);

}  // namespace nacre::front
