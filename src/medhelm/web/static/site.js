/* Small helps on every page. Everything works without them. */
(function () {
  'use strict';

  // Forms with [data-auto] apply a changed choice at once; without scripts their button does.
  document.querySelectorAll('form[data-auto]').forEach(function (form) {
    form.addEventListener('change', function (event) {
      if (event.target instanceof HTMLSelectElement) { form.requestSubmit(); }
    });
  });

  // A form sends only the fields that are filled in, so that addresses stay short.
  document.querySelectorAll('form[method="get"]').forEach(function (form) {
    form.addEventListener('submit', function () {
      Array.prototype.forEach.call(form.elements, function (field) {
        if (field.name && field.value === '') { field.disabled = true; }
      });
    });
  });
  window.addEventListener('pageshow', function () {
    document.querySelectorAll('form[method="get"] :disabled').forEach(function (field) { field.disabled = false; });
  });
}());
