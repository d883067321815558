#pragma once
// Texts: UTF-8, numbers and booleans as Go writes and reads them, the case of letters, names that
// come twice, and how near two names are.

#include <cstddef>
#include <string>
#include <string_view>

namespace drawbridge::base {

/// Bytes of the UTF-8 sequence that `text` begins with; 0 if there is none (RFC 3629: no overlong
/// forms, no surrogates, nothing above U+10FFFF).
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text);

/// Whether all of `text` is UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text);

/// The place of the first byte that no JSON text may hold: a control character other than white
/// space, or what is no UTF-8. The size of the text if there is none.
[[nodiscard]] std::size_t find_no_json(std::string_view text);

/// Appends `value` as Go's encoding/json writes a float64: the shortest digits that read back as
/// the same number, an exponent only below 1e-6 and from 1e21 on (`1e-7`, `1e+21`). `value` is
/// finite.
void append_go_number(std::string& out, double value);

/// Whether Go's strconv.ParseBool reads the text as true.
[[nodiscard]] bool is_go_true(std::string_view text);

/// The text without white space at its ends, as Go's strings.TrimSpace takes it off: that of
/// Unicode, so a no-break space (U+00A0) and the wide one of Chinese input methods (U+3000) too.
[[nodiscard]] std::string_view trim(std::string_view text);

/// The text with the 26 letters of ASCII in lower case, and with them in upper case; all else
/// stays.
[[nodiscard]] std::string lower_ascii(std::string_view text);
[[nodiscard]] std::string upper_ascii(std::string_view text);

/// The text, or its first `max` bytes and "..." where it is longer; never half a character.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t max);

/// The later of two equal texts, null if there is none. Sorts the texts if they are many.
[[nodiscard]] const std::string_view* find_repeated(std::string_view* begin, std::string_view* end);

/// How many letters must be changed, added or removed to make one text of the other (Levenshtein).
/// Takes the product of the sizes in time: bound foreign text before.
[[nodiscard]] std::size_t edit_distance(std::string_view left, std::string_view right);

}  // namespace drawbridge::base
