# Turns the comment on top of a header into the description of the file. The number of lines stays the same: the line
# `#pragma once` goes.
NR == 1 && /^\/\/ / { print "/// @file"; top = 1 }
top && /^\/\// { sub(/^\/\//, "///") }
top && /^#pragma once/ { top = 0; next }
{ print }
