// SPDX-License-Identifier: Apache-2.0
#include "value/jobid.hpp"

#include "base/text.hpp"

namespace nacre::value {
namespace {

constexpr std::string_view kF58Prefix = "\u0192";  // ƒ
constexpr std::size_t kEmojiBytes = 4;             // of each emoji in UTF-8
constexpr std::size_t kWords = 6;

// The number with these `digits` in `base`, the highest first.
Result<std::uint64_t> in_base(std::uint64_t base, const std::vector<std::size_t>& digits) {
  std::uint64_t value = 0;
  for (std::size_t digit : digits) {
    if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value)) {
      return invalid("too large for 64 bits");
    }
  }
  return value;
}

std::vector<std::size_t> digits_of(std::uint64_t value, std::uint64_t base) {
  std::vector<std::size_t> digits;
  do {
    digits.push_back(value % base);
    value /= base;
  } while (value > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [stop, code] = std::from_chars(text.data(), end, value, 16);
  if (text.empty() || code != std::errc{} || stop != end) return std::nullopt;
  return value;
}

Result<std::uint64_t> from_decimal(std::string_view text) {
  if (auto value = parse_u64(text)) return *value;
  return invalid(
      "expected a decimal number of 64 bits, 0x and hexadecimal digits, \u0192 and base58 digits, or words");
}

Result<std::uint64_t> from_hex(std::string_view digits) {
  if (auto value = parse_hex(digits)) return *value;
  return invalid("expected 0x and a hexadecimal number of 64 bits");
}

Result<std::uint64_t> from_dothex(std::string_view text) {
  auto groups = split(text, '.');
  std::uint64_t id = 0;
  bool good = groups.size() == 4;
  for (std::size_t i = 0; good && i < groups.size(); ++i) {
    auto value = parse_hex(groups[i]);
    good = value && groups[i].size() <= 4;
    if (good) id = id << 16 | *value;
  }
  if (!good) return invalid("expected four groups of up to four hexadecimal digits");
  return id;
}

Result<std::uint64_t> from_f58(std::string_view text) {
  if (text.empty()) return invalid("expected base58 digits after the prefix");
  std::vector<std::size_t> digits;
  for (char c : text) {
    std::size_t digit = kJobIdBase58.find(c);
    if (digit == std::string_view::npos) return invalid(fmt::format("{} is no base58 digit", in_quotes({&c, 1})));
    digits.push_back(digit);
  }
  return in_base(kJobIdBase58.size(), digits);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

Result<std::uint64_t> word_digit(std::string_view word) {
  std::string small(word);
  std::transform(small.begin(), small.end(), small.begin(), lower);
  for (std::size_t digit = 0; digit < kJobIdWordCount; ++digit) {
    if (jobid_word(digit) == small) return digit;
  }
  return invalid(fmt::format("{} is not in the word list", in_quotes(word)));
}

// Two groups of three words: the lower 32 bits, then the upper ones; in each group the lowest digit comes first.
Result<std::uint64_t> from_words(std::string_view text) {
  std::vector<std::string_view> words = split(text, '-');
  bool open_ended = words.front().empty() || words.back().empty();
  words.erase(std::remove(words.begin(), words.end(), ""), words.end());
  if (open_ended || words.size() != kWords) {
    return invalid(fmt::format("expected {} words parted by dashes", kWords));
  }
  std::uint64_t id = 0;
  for (std::size_t group : {3U, 0U}) {
    std::uint64_t value = 0;
    for (std::size_t i : {2U, 1U, 0U}) value = value * kJobIdWordCount + TRY(word_digit(words[group + i]));
    if (value > UINT32_MAX) return invalid("three of its words are too large for 32 bits");
    id = id << 32 | value;
  }
  return id;
}

std::string utf8_emoji(std::size_t digit) {
  char32_t c = kJobIdEmoji[digit];
  auto tail = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3f)); };
  return {static_cast<char>(0xf0 | c >> 18), tail(12), tail(6), tail(0)};
}

Result<std::uint64_t> from_emoji(std::string_view text) {
  std::vector<std::size_t> digits;
  for (std::size_t at = 0; at < text.size(); at += kEmojiBytes) {
    std::string_view one = text.substr(at, kEmojiBytes);
    std::size_t digit = 0;
    while (digit < kJobIdEmoji.size() && utf8_emoji(digit) != one) ++digit;
    if (digit == kJobIdEmoji.size())
      return invalid(fmt::format("character {} is not in the emoji list", digits.size() + 1));
    digits.push_back(digit);
  }
  return in_base(kJobIdEmoji.size(), digits);
}

Result<std::uint64_t> decode(std::string_view text) {
  if (text.size() > JobId::kMaxText) return invalid(fmt::format("longer than {} bytes", JobId::kMaxText));
  // RFC 19 defines this order.
  if (text.find('.') != std::string_view::npos) return from_dothex(text);
  if (text.find('-') != std::string_view::npos) return from_words(text);
  if (text.starts_with(kF58Prefix)) return from_f58(text.substr(kF58Prefix.size()));
  if (text.starts_with('f')) return from_f58(text.substr(1));
  if (text.starts_with("\xf0\x9f")) return from_emoji(text);
  if (text.starts_with("0x")) return from_hex(text.substr(2));
  return from_decimal(text);
}

}  // namespace

Result<JobId> JobId::parse(std::string_view text) {
  auto value = decode(trim(text));
  if (!value) return in(fmt::format("job id {}", in_quotes(text)), std::move(value).error());
  return JobId(*value);
}

std::string JobId::dothex() const {
  return fmt::format("{:04x}.{:04x}.{:04x}.{:04x}", value_ >> 48, value_ >> 32 & 0xffff, value_ >> 16 & 0xffff,
                     value_ & 0xffff);
}

std::string JobId::f58() const { return std::string(kF58Prefix) += f58_plain().substr(1); }

std::string JobId::f58_plain() const {
  std::string out = "f";
  for (std::size_t digit : digits_of(value_, kJobIdBase58.size())) out += kJobIdBase58[digit];
  return out;
}

std::string JobId::words() const {
  auto three = [](std::uint64_t half) {
    return fmt::format("{}-{}-{}", jobid_word(half % kJobIdWordCount),
                       jobid_word(half / kJobIdWordCount % kJobIdWordCount),
                       jobid_word(half / kJobIdWordCount / kJobIdWordCount));
  };
  return three(value_ & UINT32_MAX) + "--" + three(value_ >> 32);
}

std::string JobId::emoji() const {
  std::string out;
  for (std::size_t digit : digits_of(value_, kJobIdEmoji.size())) out += utf8_emoji(digit);
  return out;
}

// ---- jobid emoji ------------------------------------------------------------------------
//
// The 576 emoji of Flux RFC 19 (data/spec_19/basemoji.h there): the digit that each represents is its place in the
// list.

// clang-format off
constinit const std::u32string_view kJobIdEmoji =
    U"😃😄😁😆😅😂😉😊😍😘😚😋😜😝😏😒😌😔😪😷😵😲😳😨"
    U"😰😥😢😭😱😖😣😞😓😩😫😤😡😠👿💀💩👹👺👻👽👾😺😸"
    U"😹😻😼😽🙀😿😾🙈🙉🙊💌💘💝💖💗💓💞💕💟💔💛💚💙💜"
    U"💋💯💢💥💫💦💨💬💤👋👌👈👉👆👇👍👎👊👏🙌👐🙏💅💪"
    U"👂👃👀👅👄👶👦👧👱👨👩👴👵🙍🙎🙅🙆💁🙋🙇👮💂👷👸"
    U"👳👲👰👼🎅💆💇🚶🏃💃👯🏂🏄🏊🛀👫💏💑👪👤👣🐵🐒🐶"
    U"🐩🐺🐱🐯🐴🐎🐮🐷🐗🐽🐑🐫🐘🐭🐹🐰🐻🐨🐼🐾🐔🐣🐤🐥"
    U"🐦🐧🐸🐢🐍🐲🐳🐬🐟🐠🐡🐙🐚🐌🐛🐜🐝🐞💐🌸💮🌹🌺🌻"
    U"🌼🌷🌱🌴🌵🌾🌿🍀🍁🍂🍃🍄🍇🍈🍉🍊🍌🍍🍎🍏🍑🍒🍓🍅"
    U"🍆🌽🌰🍞🍖🍗🍔🍟🍕🍳🍲🍱🍘🍙🍚🍛🍜🍝🍠🍢🍣🍤🍥🍡"
    U"🍦🍧🍨🍩🍪🎂🍰🍫🍬🍭🍮🍯🍵🍶🍷🍸🍹🍺🍻🍴🔪🌏🗾🌋"
    U"🗻🏠🏡🏢🏣🏥🏦🏨🏩🏪🏫🏬🏭🏯🏰💒🗼🗽🌁🌃🌄🌅🌆🌇"
    U"🌉🎠🎡🎢💈🎪🚃🚄🚅🚇🚉🚌🚑🚒🚓🚕🚗🚙🚚🚲🚏🚨🚥🚧"
    U"🚤🚢💺🚀🕛🕐🕑🕒🕓🕔🕕🕖🕗🕘🕙🕚🌑🌓🌔🌕🌙🌛🌟🌠"
    U"🌌🌀🌈🌂🔥💧🌊🎃🎄🎆🎇🎈🎉🎊🎋🎍🎎🎏🎐🎑🎀🎁🎫🏆"
    U"🏀🏈🎾🎳🎣🎽🎿🎯🔫🎱🔮🎮🎰🎲🃏🀄🎴🎭🎨👓👔👕👖👗"
    U"👘👙👚👛👜👝🎒👞👟👠👡👢👑👒🎩🎓💄💍💎🔊📢📣🔔🎼"
    U"🎵🎶🎤🎧📻🎷🎸🎹🎺🎻📱📲📞📟📠🔋🔌💻💽💾💿📀🎥🎬"
    U"📺📷📹📼🔍🔎💡🔦🏮📔📕📖📗📘📙📚📓📒📃📜📄📰📑🔖"
    U"💰💴💵💸💳💹📧📨📩📤📥📦📫📪📮📝💼📁📂📅📆📇📈📉"
    U"📊📋📌📍📎📏📐🔒🔓🔏🔐🔑🔨💣🔧🔩🔗📡💉💊🚪🚽🚬🗿"
    U"🏧🚹🚺🚻🚼🚾🚫🚭🔞🔃🔙🔚🔛🔜🔝🔯🔼🔽🎦📶📳📴💱💲"
    U"🔱📛🔰🔟🔠🔡🔢🔣🔤🆎🆑🆒🆓🆔🆕🆖🆗🆘🆙🆚🈁🈶🈯🉐"
    U"🈹🈚🈲🉑🈸🈴🈳🈺🈵🔴🔵🔶🔷🔸🔹🔺🔻💠🔘🔳🔲🏁🚩🎌";
// clang-format on

// ---- jobid words ------------------------------------------------------------------------
//
// The word list of mnemonicode, version 0.7 (https://github.com/singpolyma/mnemonicode, file mn_wordlist.c), to
// which RFC 19 refers: its first 1626 words, in its order. The seven that follow there are for 24-bit remainders,
// which a job id does not have. Only the words are taken over, under their licence:
//
// Copyright (c) 2000  Oren Tirosh <oren@hishome.net>
//
// Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
// documentation files (the "Software"), to deal in the Software without restriction, including without limitation
// the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and
// to permit persons to whom the Software is furnished to do so, subject to the following conditions:
//
// The above copyright notice and this permission notice shall be included in all copies or substantial portions of
// the Software.
//
// THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO
// THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT.  IN NO EVENT SHALL THE
// AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
// CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS
// IN THE SOFTWARE.

namespace {

// One text, as a table of views would have 1626 addresses to relocate at each start of a program.
constexpr std::string_view kJobIdWordText =
    "academy acrobat active actor adam admiral adrian africa agenda agent airline airport aladdin alarm alaska "
    "albert albino album alcohol alex algebra alibi alice alien alpha alpine amadeus amanda amazon amber "
    "america amigo analog anatomy angel animal antenna antonio apollo april archive arctic arizona arnold aroma "
    "arthur artist asia aspect aspirin athena athlete atlas audio august austria axiom aztec balance ballad "
    "banana bandit banjo barcode baron basic battery belgium berlin bermuda bernard bikini binary bingo biology "
    "block blonde bonus boris boston boxer brandy bravo brazil bronze brown bruce bruno burger burma cabinet "
    "cactus cafe cairo cake calypso camel camera campus canada canal cannon canoe cantina canvas canyon capital "
    "caramel caravan carbon cargo carlo carol carpet cartel casino castle castro catalog caviar cecilia cement "
    "center century ceramic chamber chance change chaos charlie charm charter chef chemist cherry chess chicago "
    "chicken chief china cigar cinema circus citizen city clara classic claudia clean client climax clinic "
    "clock club cobra coconut cola collect colombo colony color combat comedy comet command compact company "
    "complex concept concert connect consul contact context contour control convert copy corner corona correct "
    "cosmos couple courage cowboy craft crash credit cricket critic crown crystal cuba culture dallas dance "
    "daniel david decade decimal deliver delta deluxe demand demo denmark derby design detect develop diagram "
    "dialog diamond diana diego diesel diet digital dilemma diploma direct disco disney distant doctor dollar "
    "dominic domino donald dragon drama dublin duet dynamic east ecology economy edgar egypt elastic elegant "
    "element elite elvis email energy engine english episode equator escort ethnic europe everest evident exact "
    "example exit exotic export express extra fabric factor falcon family fantasy fashion fiber fiction fidel "
    "fiesta figure film filter final finance finish finland flash florida flower fluid flute focus ford forest "
    "formal format formula fortune forum fragile france frank friend frozen future gabriel galaxy gallery gamma "
    "garage garden garlic gemini general genetic genius germany global gloria golf gondola gong good gordon "
    "gorilla grand granite graph green group guide guitar guru hand happy harbor harmony harvard havana hawaii "
    "helena hello henry hilton history horizon hotel human humor icon idea igloo igor image impact import index "
    "india indigo input insect instant iris italian jacket jacob jaguar janet japan jargon jazz jeep john joker "
    "jordan jumbo june jungle junior jupiter karate karma kayak kermit kilo king koala korea labor lady lagoon "
    "laptop laser latin lava lecture left legal lemon level lexicon liberal libra limbo limit linda linear lion "
    "liquid liter little llama lobby lobster local logic logo lola london lotus lucas lunar machine macro madam "
    "madonna madrid maestro magic magnet magnum major mama mambo manager mango manila marco marina market mars "
    "martin marvin master matrix maximum media medical mega melody melon memo mental mentor menu mercury "
    "message metal meteor meter method metro mexico miami micro million mineral minimum minus minute miracle "
    "mirage miranda mister mixer mobile model modem modern modular moment monaco monica monitor mono monster "
    "montana morgan motel motif motor mozart multi museum music mustang natural neon nepal neptune nerve "
    "neutral nevada news ninja nirvana normal nova novel nuclear numeric nylon oasis object observe ocean "
    "octopus olivia olympic omega opera optic optimal orange orbit organic orient origin orlando oscar oxford "
    "oxygen ozone pablo pacific pagoda palace pamela panama panda panel panic paradox pardon paris parker "
    "parking parody partner passage passive pasta pastel patent patriot patrol patron pegasus pelican penguin "
    "pepper percent perfect perfume period permit person peru phone photo piano picasso picnic picture pigment "
    "pilgrim pilot pirate pixel pizza planet plasma plaster plastic plaza pocket poem poetic poker polaris "
    "police politic polo polygon pony popcorn popular postage postal precise prefix premium present price "
    "prince printer prism private product profile program project protect proton public pulse puma pyramid "
    "queen radar radio random rapid rebel record recycle reflex reform regard regular relax report reptile "
    "reverse ricardo ringo ritual robert robot rocket rodeo romeo royal russian safari salad salami salmon "
    "salon salute samba sandra santana sardine school screen script second secret section segment select "
    "seminar senator senior sensor serial service sheriff shock sierra signal silicon silver similar simon "
    "single siren slogan social soda solar solid solo sonic soviet special speed spiral spirit sport static "
    "station status stereo stone stop street strong student studio style subject sultan super susan sushi "
    "suzuki switch symbol system tactic tahiti talent tango tarzan taxi telex tempo tennis texas textile theory "
    "thermos tiger titanic tokyo tomato topic tornado toronto torpedo total totem tourist tractor traffic "
    "transit trapeze travel tribal trick trident trilogy tripod tropic trumpet tulip tuna turbo twist ultra "
    "uniform union uranium vacuum valid vampire vanilla vatican velvet ventura venus vertigo veteran victor "
    "video vienna viking village vincent violet violin virtual virus visa vision visitor visual vitamin viva "
    "vocal vodka volcano voltage volume voyage water weekend welcome western window winter wizard wolf world "
    "xray yankee yoga yogurt yoyo zebra zero zigzag zipper zodiac zoom abraham action address alabama alfred "
    "almond ammonia analyze annual answer apple arena armada arsenal atlanta atomic avenue average bagel baker "
    "ballet bambino bamboo barbara basket bazaar benefit bicycle bishop blitz bonjour bottle bridge british "
    "brother brush budget cabaret cadet candle capitan capsule career cartoon channel chapter cheese circle "
    "cobalt cockpit college compass comrade condor crimson cyclone darwin declare degree delete delphi denver "
    "desert divide dolby domain domingo double drink driver eagle earth echo eclipse editor educate edward "
    "effect electra emerald emotion empire empty escape eternal evening exhibit expand explore extreme ferrari "
    "first flag folio forget forward freedom fresh friday fuji galileo garcia genesis gold gravity habitat "
    "hamlet harlem helium holiday house hunter ibiza iceberg imagine infant isotope jackson jamaica jasmine "
    "java jessica judo kitchen lazarus letter license lithium loyal lucky magenta mailbox manual marble mary "
    "maxwell mayor milk monarch monday money morning mother mystery native nectar nelson network next nikita "
    "nobel nobody nominal norway nothing number october office oliver opinion option order outside package "
    "pancake pandora panther papa patient pattern pedro pencil people phantom philips pioneer pluto podium "
    "portal potato prize process protein proxy pump pupil python quality quarter quiet rabbit radical radius "
    "rainbow ralph ramirez ravioli raymond respect respond result resume retro richard right risk river roger "
    "roman rondo sabrina salary salsa sample samuel saturn savage scarlet scoop scorpio scratch scroll sector "
    "serpent shadow shampoo sharon sharp short shrink silence silk simple slang smart smoke snake society sonar "
    "sonata soprano source sparta sphere spider sponsor spring acid adios agatha alamo alert almanac aloha "
    "andrea anita arcade aurora avalon baby baggage balloon bank basil begin biscuit blue bombay brain brenda "
    "brigade cable carmen cello celtic chariot chrome citrus civil cloud common compare cool copper coral "
    "crater cubic cupid cycle depend door dream dynasty edison edition enigma equal eric event evita exodus "
    "extend famous farmer food fossil frog fruit geneva gentle george giant gilbert gossip gram greek grille "
    "hammer harvest hazard heaven herbert heroic hexagon husband immune inca inch initial isabel ivory jason "
    "jerome joel joshua journal judge juliet jump justice kimono kinetic leonid lima maze medusa member memphis "
    "michael miguel milan mile miller mimic mimosa mission monkey moral moses mouse nancy natasha nebula nickel "
    "nina noise orchid oregano origami orinoco orion othello paper paprika prelude prepare pretend profit "
    "promise provide puzzle remote repair reply rival riviera robin rose rover rudolf saga sahara scholar "
    "shelter ship shoe sigma sister sleep smile spain spark split spray square stadium star storm story strange "
    "stretch stuart subway sugar sulfur summer survive sweet swim table taboo target teacher telecom temple "
    "tibet ticket tina today toga tommy tower trivial tunnel turtle twin uncle unicorn unique update valery "
    "vega version voodoo warning william wonder year yellow young absent absorb accent alfonso alias ambient "
    "andy anvil appear apropos archer ariel armor arrow austin avatar axis baboon bahama bali balsa bazooka "
    "beach beast beatles beauty before benny betty between beyond billy bison blast bless bogart bonanza book "
    "border brave bread break broken bucket buenos buffalo bundle button buzzer byte caesar camilla canary "
    "candid carrot cave chant child choice chris cipher clarion clark clever cliff clone conan conduct congo "
    "content costume cotton cover crack current danube data decide desire detail dexter dinner dispute donor "
    "druid drum easy eddie enjoy enrico epoxy erosion except exile explain fame fast father felix field fiona "
    "fire fish flame flex flipper float flood floor forbid forever fractal frame freddie front fuel gallop game "
    "garbo gate gibson ginger giraffe gizmo glass goblin gopher grace gray gregory grid griffin ground guest "
    "gustav gyro hair halt harris heart heavy herman hippie hobby honey hope horse hostel hydro imitate info "
    "ingrid inside invent invest invite iron ivan james jester jimmy join joseph juice julius july justin "
    "kansas karl kevin kiwi ladder lake laura learn legacy legend lesson life light list locate lopez lorenzo "
    "love lunch malta mammal margo marion mask match mayday meaning mercy middle mike mirror modest morph "
    "morris nadia nato navy needle neuron never newton nice night nissan nitro nixon north oberon octavia ohio "
    "olga open opus orca oval owner page paint palma parade parent parole paul peace pearl perform phoenix "
    "phrase pierre pinball place plate plato plume pogo point polite polka poncho powder prague press presto "
    "pretty prime promo quasi quest quick quiz quota race rachel raja ranger region remark rent reward rhino "
    "ribbon rider road rodent round rubber ruby rufus sabine saddle sailor saint salt satire scale scuba season "
    "secure shake shallow shannon shave shelf sherman shine shirt side sinatra sincere size slalom slow small "
    "snow sofia song sound south speech spell spend spoon stage stamp stand state stella stick sting stock "
    "store sunday sunset support sweden swing tape think thomas tictac time toast tobacco tonight torch torso "
    "touch toyota trade tribune trinity triton truck trust type under unit urban urgent user value vendor "
    "venice verona vibrate virgo visible vista vital voice vortex waiter watch wave weather wedding wheel "
    "whiskey wisdom deal null nurse quebec reserve reunion roof singer verbal amen ";
// clang-format on

// Where each word begins, and where one behind the last would begin.
constexpr auto kJobIdWordBegins = [] {
  std::array<std::uint16_t, kJobIdWordCount + 1> begins{};
  std::size_t count = 0;
  for (std::size_t at = 0; at < kJobIdWordText.size(); ++at) {
    if (kJobIdWordText[at] == ' ') begins.at(++count) = static_cast<std::uint16_t>(at + 1);
  }
  return begins;
}();
static_assert(kJobIdWordBegins.back() == kJobIdWordText.size());

}  // namespace

std::string_view jobid_word(std::size_t digit) {
  std::size_t begin = kJobIdWordBegins[digit];
  return kJobIdWordText.substr(begin, kJobIdWordBegins[digit + 1] - begin - 1);
}

}  // namespace nacre::value
