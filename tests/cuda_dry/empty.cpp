// A library of NVIDIA by name; its functions are in dry_device.cpp.
