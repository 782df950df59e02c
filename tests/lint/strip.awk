# SPDX-License-Identifier: BSD-3-Clause
# strip.awk -- C source without comments and without what is inside quotes, line by line

function strip(text, out, at, c, two) {
	out = ""
	at = 1
	while (at <= length(text)) {
		two = substr(text, at, 2)
		c = substr(text, at, 1)
		if (state == "comment") {
			if (two == "*/") {
				state = ""
				at++
			}
		} else if (state != "") {
			if (c == "\\")
				at++
			else if (c == state) {
				out = out c
				state = ""
			}
		} else if (two == "/*") {
			state = "comment"
			out = out " "
			at++
		} else {
			if (c == "\"" || c == "'")
				state = c
			out = out c
		}
		at++
	}
	if (state != "comment")
		state = ""
	return out
}

FNR == 1 {
	state = ""
}

{
	code = strip($0)
}
