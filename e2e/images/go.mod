module tombolo.dev/e2e/images

go 1.26.0
