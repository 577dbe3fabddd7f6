# PLIMSOLL_SANITIZE: everything under a sanitizer, in a build folder of its own (the preset `asan`). What `make asan` takes
# for the parts that count bytes and offsets, in the folder of the release build, is PLIMSOLL_CHECKED_FLAGS: bounds of
# containers too, and nothing of the optimization that hides a fault.
# libtorch is not instrumented and hides typeinfo: -fsanitize=vptr would call its objects foreign.
set(PLIMSOLL_CHECKED_FLAGS -O1 -g1 -fsanitize=address,undefined -fno-sanitize=vptr -fno-omit-frame-pointer
    -D_GLIBCXX_ASSERTIONS)
if(PLIMSOLL_SANITIZE)
  add_compile_options(-fsanitize=${PLIMSOLL_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PLIMSOLL_SANITIZE})
endif()
