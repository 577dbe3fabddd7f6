if(PLIMSOLL_SANITIZE)
  # libtorch is not instrumented and hides typeinfo: -fsanitize=vptr would call its objects foreign.
  add_compile_options(-fsanitize=${PLIMSOLL_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PLIMSOLL_SANITIZE})
endif()
