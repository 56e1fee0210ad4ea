# What Packer 1.6.6 does not know: plugins that are fetched, and what came to amazon-ebs later.

packer {
  required_version = ">= 1.11.0"
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.2, < 2.0.0"
    }
  }
}

build {
  source "source.amazon-ebs.infinity" {
    name = "infinity"

    # Every instance of the image answers IMDSv2 only, whatever its launch says.
    imds_support = "v2.0"
    # So does the instance that builds it.
    metadata_options {
      http_endpoint               = "enabled"
      http_tokens                 = "required"
      http_put_response_hop_limit = 1
    }
  }

  provisioner "shell" {
    inline = ["sudo install -d -o \"$(id -un)\" ${local.folder}"]
  }
  provisioner "file" {
    source      = var.tarball
    destination = "${local.folder}/infinity.tar.gz"
  }
  provisioner "shell" {
    inline            = local.provision
    remote_folder     = local.folder
    environment_vars  = local.environment
    execute_command   = "sudo env {{ .Vars }} sh {{ .Path }}"
    expect_disconnect = false
  }

  post-processor "manifest" {
    output     = var.manifest
    strip_path = true
  }
}
