// SPDX-License-Identifier: Apache-2.0
//
// What a shell receives from the shell, or the `nacre launch`, that has started it: one line of JSON on its
// standard input, after the line of the secret (transport/secret.hpp). nacre-boot(7) describes it for users.
#pragma once

#include "group/directory.hpp"
#include "transport/secret.hpp"
#include "value/hostlist.hpp"

namespace nacre::launch {

// What a leader that is no child of its launcher sends it besides the job's output: messages on named channels, as
// lines within the agent's standard error. Each line is written by one write(2), and has at most kMaxLine bytes, so
// that neither other writers nor srun, which passes on lines of up to 1024 bytes, cut it:
//
//   RS TOKEN " " NUMBER " " CHANNEL " " MARK CHECK " " BYTES LF
//
//   RS      the byte 0x1e; the line may begin after bytes that are no line
//   TOKEN   from the launch record (Carriage); no other process knows it
//   NUMBER  1, 2, ... for all lines, in decimal, so that the reader notices a missing line
//   MARK    + if more of the message follows in the next line, else a dot
//   CHECK   FNV-1a (32 bits, 8 hexadecimal digits) of NUMBER, CHANNEL, MARK and BYTES, one after the other
//   BYTES   the message; those below 0x20, 0x7f and % as %XX

// The carriage as the launch record has it.
struct Carriage {
  static constexpr std::size_t kToken = 32;       // hexadecimal digits
  static constexpr std::size_t kMaxChannel = 32;  // bytes: lower-case letters, digits, dots and dashes
  static constexpr std::size_t kMaxChannels = 8;
  // Channels of one message each: the shells have come together; the leader leaves, and nothing more of the job
  // comes. The latter has the job's exit code in decimal, or nothing where the leader exits with another
  // (--exit-local).
  static constexpr std::string_view kJoined = "joined";
  static constexpr std::string_view kEnded = "ended";
  // A message for each signal that the leader has read, its number in decimal: an agent such as srun reads all that
  // is written to it, whether the leader does or not.
  static constexpr std::string_view kSignal = "signal";
  // Where the shell is (NextLeader) that has come to lead in place of a lost one, if srun has started all. It
  // writes nothing else; its lines are numbered from 1 on again.
  static constexpr std::string_view kLeads = "leads";
  // Of a shell that would lead if the launcher lets it: the same, in one line, which comes between those of the
  // leader.
  static constexpr std::string_view kWanted = "wanted";
  // Of a leader that has lost half of its shells, which an agent has started: without which it would go on (an
  // idset). The launcher answers by {"agreed": SHELLS} (launch/stream.hpp), unless it has let another shell lead.
  static constexpr std::string_view kHalf = "half";

  std::string token;
  std::vector<std::string>
      channels;  // options of the leader: the value of each is a descriptor whose bytes are carried

  static Result<Carriage> with_new_token();
  // EINVAL: the token or the channels are not valid.
  [[nodiscard]] Result<void> check() const;
  bool operator==(const Carriage&) const = default;
};

// Where the shell is that leads a job now whose shells srun has started.
struct NextLeader {
  std::string host;        // as Slurm calls it
  std::string allocation;  // its id

  [[nodiscard]] static NextLeader own();  // this process
  static Result<NextLeader> parse(std::string_view message);
  [[nodiscard]] std::string message() const;
};

class CarriageWriter {
 public:
  static constexpr std::size_t kMaxLine = 900;  // bytes, with its newline

  explicit CarriageWriter(std::string token) : token_(std::move(token)) {}
  // At least one line; the caller writes each as a whole.
  std::vector<std::string> lines(std::string_view channel, std::string_view message);

 private:
  std::string token_;
  std::uint64_t number_ = 0;
};

class CarriageReader {
 public:
  static constexpr std::size_t kMaxMessage = std::size_t{16} << 20;  // bytes

  struct Callbacks {
    // All bytes that are in no line, unchanged and at once; but the start of RS TOKEN waits for the bytes after it.
    std::function<void(std::string_view)> on_other;
    std::function<void(std::string_view channel, std::string_view message)> on_message;
    std::function<void()> on_loss;  // lines are missing or broken: their messages never come; may be called again
  };

  // `is_labelled`: something has put a number before each line ("12: "), as srun --label does. Of a message's
  // lines nothing is left, and what precedes one in its line is a line of its own. Bytes that may be such a number
  // wait for those after it.
  CarriageReader(const std::string& token, Callbacks callbacks, bool is_labelled = false);
  void take(std::string_view bytes);
  // Nothing more comes.
  void end();

 private:
  void add(char byte);
  void let_go();
  void pass_on(std::string_view bytes);
  void leave_out_line();
  [[nodiscard]] bool continues_label(char byte) const;
  bool take_line();
  void take_piece(std::uint64_t number, std::string_view channel, bool more, std::string bytes);

  std::string mark_;  // each line begins with it
  Callbacks callbacks_;
  std::string held_;  // a line, or the start of mark_
  std::uint64_t number_ = 0;
  std::string channel_, message_;  // a message whose rest has not come yet
  bool is_within_ = false;
  bool skips_ = false;  // ignores the rest of an incomplete message
  bool is_labelled_;
  bool is_at_start_ = true;  // of a line, of which `label_` is all that has come
  std::string label_;
};

// The exit code of a leader that the others have given up: another one leads the job (on-leader-lost=take-over).
// ssh exits with the same if its link breaks.
inline constexpr int kLeaderLost = 255;

// Whether a job goes on without its launcher.
enum class Detaching : std::uint8_t {
  never,       // or only because the job's option on-launcher-lost says so
  on_request,  // if the launcher asks for it: a leader that an agent has started lets that end
  at_start     // as soon as it runs
};

struct LaunchRecord {
  static constexpr std::size_t kMaxLine = std::size_t{256} << 20;  // bytes, with its newline
  static constexpr std::size_t kMaxWord = std::size_t{128} << 10;  // bytes of an argument; the kernel's limit
  static constexpr std::size_t kMaxWords = 4096;                   // of a command line, and of the options
  static constexpr std::uint32_t kMaxArity = 1024;
  static constexpr double kMaxTimeout = 86400;  // seconds
  // What the shells themselves, and an initrc, read of the launcher's environment: where a user's files are, and
  // how a job's id is written. Not what differs from host to host (HOME, TMPDIR, XDG_RUNTIME_DIR). `environment`
  // takes no others.
  static constexpr std::array kVariables{"NACRE_ARCHIVE_DIR",  "NACRE_JOBS_DIR",       "XDG_CACHE_HOME",
                                         "XDG_CONFIG_HOME",    "XDG_DATA_HOME",        "XDG_STATE_HOME",
                                         "FLUX_SHELL_RC_PATH", "FLUX_F58_FORCE_ASCII", "FLUX_LOAD_WITH_DEEPBIND"};

  std::string version;  // of the program that wrote the record, for messages
  std::uint32_t protocol = 0;
  value::JobId job;
  std::optional<group::Rank> rank;  // none: the manager gives it, as all shells get the same line
  std::uint32_t size = 1;
  std::uint32_t arity = 2;
  value::Hostlist hosts;  // in the order of ranks; may be empty if there is no rank
  // Starts a shell on another host; empty: all shells are on this host
  std::vector<std::string> agent;
  std::vector<std::string> shell;                  // path and options of nacre-shell, without --boot
  double timeout = 30;                             // seconds that a shell may take to join
  std::map<group::Rank, std::string> addresses;    // of the ancestors, and of `leader`, joined by blanks
  std::map<std::string, std::string> environment;  // of kVariables those that the launcher has; set in the shell
  std::optional<std::uint32_t> umask;              // the launcher's; set in the shell, and so in tasks
  bool makes_resources = true;                     // R is made of the shells' offers, as the leader is given none
  // The shell joins a job that runs (elastic::Growth, as JSON: the shells that have done so before); `rank` is
  // `size` or more.
  std::optional<std::string> growth;
  std::optional<group::Rank> leader;  // of such a shell, of a job that may change its leader: who leads
  // Only for the leader, and the first three for a shell that joins later:
  std::optional<std::string> jobspec;          // the text of the file
  std::optional<std::string> resources;        // the same
  std::vector<std::string> options;            // as those of -o
  std::map<std::string, std::string> sources;  // of options, who has set them, for --explain
  bool input = false;                          // the launcher's stream has standard input
  bool remote = false;                         // an agent has started it: its process is not the launcher's child
  std::optional<Carriage> carriage;            // what the launcher wants to receive beside the output
  Detaching detaching = Detaching::never;
  bool terminal = false;               // this shell's standard error ends at the launcher's, which is a terminal
  std::string front = "nacre launch";  // with what messages of the launcher, or in its stead, begin

  // The line, with its newline. Errors name the place: `the launch record: rank: expected ...`. If a record has
  // another protocol the error names both versions, and the rest is not read.
  [[nodiscard]] std::string line() const;
  static Result<LaunchRecord> parse(std::string_view line);

  // The ranks of the shells that this one starts. These two need `rank`.
  [[nodiscard]] std::vector<group::Rank> children() const;
  // The record for one of them; `address` is this shell's.
  [[nodiscard]] LaunchRecord of_child(group::Rank child, const std::string& address) const;
  // The lines of these records, of all children().
  [[nodiscard]] std::vector<std::string> lines_of_children(const std::string& address) const;
};

// What comes on standard input before the launcher's stream.
struct LaunchInput {
  transport::Secret secret;
  std::optional<LaunchRecord> record;  // none: the input has ended after the secret
  std::string behind;                  // bytes that were read after the record
};

// Reads both lines, and waits at most `timeout` seconds.
Result<LaunchInput> read_launch_input(int fd, double timeout);

// Both lines; `record` is line() of one.
[[nodiscard]] std::string launch_lines(const transport::Secret& secret, std::string_view record);

// Moves standard input to a descriptor of its own, and puts /dev/null in its place, so that no task reads what is
// for this shell.
Result<UniqueFd> take_input(int fd);

}  // namespace nacre::launch
