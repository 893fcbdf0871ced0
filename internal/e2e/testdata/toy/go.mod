module example.com/toy

go 1.26

require github.com/afterbay/afterbay v0.0.0

replace github.com/afterbay/afterbay => ../../../..
