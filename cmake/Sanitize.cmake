# PLIMSOLL_SANITIZE: everything under a sanitizer, in a build folder of its own (the preset `asan`). PLIMSOLL_CHECKED_FLAGS are
# those of `make asan`, whose programs are built in the folder of the release build: the engine, the decoder and five folders of tests,
# with bounds of containers too, and nothing of the optimization that hides a fault.
# libtorch is not instrumented and hides typeinfo: -fsanitize=vptr would call its objects foreign.
# PLIMSOLL_CHECKED_FLAGS leave out what the preset `asan` has and what costs most: null, alignment, object-size, pointer-overflow. A file
# of tests compiles in 5.4 s without the undefined-behavior sanitizer, in 5.7 s with what is left of it, in 11.8 s with all of it. A wild
# pointer that is read through is found by the address sanitizer. -fexpensive-optimizations: products and sums are contracted, as in
# release and in libtorch, unless a check is between them.
set(PLIMSOLL_CHECKED_FLAGS -O1 -fexpensive-optimizations -g1 -fsanitize=address,undefined
    -fno-sanitize=vptr,null,alignment,object-size,pointer-overflow -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS)
if(PLIMSOLL_SANITIZE)
  add_compile_options(-fsanitize=${PLIMSOLL_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PLIMSOLL_SANITIZE})
endif()
